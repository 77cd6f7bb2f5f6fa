"""The promises, one file each, checked against what was published and what was true."""
