"""For gunicorn: LabCarbon itself, with more patience for a provider that is slow because the
machine is busy with tests.
"""

import labcarbon.wsgi  # before all others: nothing of the apps can be loaded before Django
from apps.accounts.oidc import provider

application = labcarbon.wsgi.application
provider.TIMEOUT_S = 30
