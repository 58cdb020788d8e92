"""Addresses of the people, roles and invitations."""

from django.urls import path

from apps.dashboard.people import views

urlpatterns = [
    path("people/", views.people, name="people"),
    path("people/<int:person>/", views.person, name="person"),
    path("people/<int:person>/role/", views.person_role, name="person-role"),
    path("people/<int:person>/remove/", views.person_remove, name="person-remove"),
    path("people/<int:person>/erase/", views.person_erase, name="person-erase"),
    path("people/<int:person>/export/", views.person_export, name="person-export"),
    path("invitations/<int:invitation>/revoke/", views.invitation_revoke, name="invitation-revoke"),
    path("invite/", views.invitation, name="invitation"),
    path("labs/switch/", views.switch_lab, name="lab-switch"),
]
