"""What engine 1 left behind: its state in Redis, its state file and a release, as its own code wrote them.

Made by the last commit before engine 2 from six inserts and a request for a release, k = 2 and l = 2.
"""

import base64
from typing import Final

ENGINE: Final = "1.0"
RECORD: Final = (
    b'{"table":"t","release":1,"group":"g1","formed":1,"cells":[{"cell":"c1","region":{"age":{"min":0,"max":25},'
    b'"weight":{"min":0.0,"max":300.0}},"rows":3},{"cell":"c2","region":{"age":{"min":26,"max":99},"weight":'
    b'{"min":0.0,"max":300.0}},"rows":3}],"sensitive":{"a":2,"b":2,"c":2},"counterfeits":0}'
)
MANIFEST: Final = (
    b'{"table":"t","release":1,"previous":null,"policy":"ce3f64582efe518e7588f19ffc02c6fd29a40fb52afd49203e9ee72d9899cb'
    b'4b","content":"7f5f99cfdca441d4c28608a5d52803f337bb2e2ef08b0d3ab68fac7d506eb0f7","engine":"1.0","published_at":nu'
    b'll,"rows":6,"groups":1,"formed":1,"carried":0,"withheld":0,"unsampled":0,"suppressed":0,"generalized":0,"counterf'
    b'eits":0,"max_breach":0.33333333333333326,"bound":0.5,"loss":{"ncp":0.7474747474747475,"discernibility":18,"averag'
    b'e_group":6.0}}'
)
HEADERS: Final = [("kind", b"manifest"), ("offsets", b"[3,3]"), ("external", b"[0,0]"), ("trigger", b"0")]
"""Of the manifest's record on the releases topic."""

META: Final[dict[str, str | bytes]] = {
    "format": "5",
    "policy": "ce3f64582efe518e7588f19ffc02c6fd29a40fb52afd49203e9ee72d9899cb4b",
    "engine": ENGINE,
    "key": "k",
    "seal": "",
    "partitions": "2",
    "created": "1794880000.0",
    "release": "1",
    "manifest": "945a23aa7b52334766b84a938dc1e7f19ccb151075243f6f8926d1f0a94c3b8a",
    "sent": "1",
    "applied": "1",
    "state": b"\x96\x01\xd9@945a23aa7b52334766b84a938dc1e7f19ccb151075243f6f8926d1f0a94c3b8a\x03\xcb?\xe0\x00\x00"
    b"\x00\x00\x00\x00\xa31.0\xd9@ce3f64582efe518e7588f19ffc02c6fd29a40fb52afd49203e9ee72d9899cb4b",
    "counts": "6 1 1 0 0",
}
"""The hash `meta` in Redis."""

STATE_FILE: Final = base64.b64decode(
    "c2hvYWwgcmVwbGF5IHN0YXRlCoumZm9ybWF0BKZwb2xpY3nZQGNlM2Y2NDU4MmVmZTUxOGU3NTg4ZjE5ZmZjMDJjNmZkMjlhNDBmYjUyYWZk"
    "NDkyMDNlOWVlNzJkOTg5OWNiNGKmZW5naW5lozEuMKZzZWNyZXTEBnNlY3JldKhwb3NpdGlvbpMHxCDdDT3FpeJIrCxfegQ2NQIwHbS3JkSZ"
    "wZO88HNSDlDU7ACkbWV0YZYB2UA5NDVhMjNhYTdiNTIzMzQ3NjZiODRhOTM4ZGMxZTdmMTljY2IxNTEwNzUyNDNmNmY4OTI2ZDFmMGE5NGMz"
    "YjhhAss/1VVVVVVVVKMxLjDZQGNlM2Y2NDU4MmVmZTUxOGU3NTg4ZjE5ZmZjMDJjNmZkMjlhNDBmYjUyYWZkNDkyMDNlOWVlNzJkOTg5OWNi"
    "NGKmcGVvcGxlBqZncm91cHMBpW5vZGVzAadjbGlxdWVzAKlleHRlcm5hbHMAkqJwMJoBAJIAy0BJAAAAAAAAkQABkQEBwJD/kqJwMZoBAJIK"
    "y0BJgAAAAAAAkQEBkQEBwJD/kqJwMpoBAJIUy0BKAAAAAAAAkQIBkQEBwJD/kqJwM5oBAJIey0BKgAAAAAAAkQABkQEBwJD/kqJwNJoBAJIo"
    "y0BLAAAAAAAAkQEBkQEBwJD/kqJwNZoBAJIyy0BLgAAAAAAAkQIBkQEBwJD/kgGUAQaTkgECkgICkgMCAJIAlAAaAQJV17b/8ZwthmY9ua++"
    "wrHbzy+Lu9ud0cBoB+Mtdj+bIQ=="
)
"""Of `shoal replay --state`."""
