"""The container's health check: exits with 0 if the worker in this container answers that it is alive, else with 1.

Standard library only, so that the image needs no curl.
"""

import os
import sys
import urllib.error
import urllib.request


def main() -> int:
    url = f"http://127.0.0.1:{os.environ.get('SHOAL_WEB_PORT') or 6066}/health"
    try:
        with urllib.request.urlopen(url, timeout=3) as answer:
            return 0 if answer.status == 200 else 1
    except (urllib.error.URLError, OSError) as error:
        print(f"the worker does not answer: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
