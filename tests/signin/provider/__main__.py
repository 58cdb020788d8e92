"""Prepare the provider's database: its people, and LabCarbon as a client (``python -m
tests.signin.provider CALLBACK``).
"""

import sys

import django
from django.core.management import call_command

django.setup()

from django.contrib.auth.models import User  # noqa: E402
from oauth2_provider.models import Application  # noqa: E402

from tests.signin.provider.people import CLIENT_ID, CLIENT_SECRET, PASSWORD, PEOPLE  # noqa: E402

call_command("migrate", verbosity=0)
for name in PEOPLE:
    User.objects.create_user(name, password=PASSWORD)
Application.objects.create(
    name="LabCarbon",
    client_id=CLIENT_ID,
    client_secret=CLIENT_SECRET,
    client_type=Application.CLIENT_CONFIDENTIAL,
    authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
    redirect_uris=sys.argv[1],
    algorithm=Application.RS256_ALGORITHM,
    skip_authorization=True,
)
