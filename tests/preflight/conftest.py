"""What tests of preflight share: the labs and callers of the API's tests."""

from tests.api.conftest import labs as labs
from tests.api.conftest import refused as refused
from tests.dashboard.conftest import lab as lab
from tests.dashboard.conftest import outsider as outsider
from tests.dashboard.conftest import owner as owner
from tests.dashboard.conftest import viewer as viewer
