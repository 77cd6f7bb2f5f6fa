"""Tables as older versions of Shoal left them, each written by that version itself (make.py), and read by tests."""
