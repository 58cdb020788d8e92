"""What tests of model files share: the labs and callers of the API's tests."""

from tests.api.conftest import labs as labs
from tests.api.conftest import refused as refused
