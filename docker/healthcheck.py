#!/opt/labcarbon/bin/python
"""Health check of this container's web server: GET /livez with the site's name, as its proxy
does.
"""

import http.client
import os
import sys
from urllib.parse import urlsplit

TIMEOUT_S = 5.0


def ask(port: int, site_url: str) -> str:
    """Return '' when /livez answers 200, else what was wrong.

    Django refuses a foreign Host and turns plain HTTP away once the site is https, so both headers
    are the site's.
    """
    site = urlsplit(site_url)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request(
            "GET", "/livez", headers={"Host": site.netloc, "X-Forwarded-Proto": site.scheme}
        )
        status = connection.getresponse().status
    except OSError as error:
        return f"no answer on port {port}: {error}"
    finally:
        connection.close()
    return "" if status == http.client.OK else f"/livez answered {status}"


if __name__ == "__main__":
    port_text = os.environ.get("LABCARBON_PORT", "8000")
    problem = ask(
        int(port_text), os.environ.get("LABCARBON_SITE_URL", f"http://127.0.0.1:{port_text}")
    )
    sys.exit(problem or 0)
