"""The auditor: its parts, and folders and engines that it must find out."""
