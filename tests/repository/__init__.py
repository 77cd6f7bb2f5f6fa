"""Tests of the repository itself: its layers, its pages, its images, its examples."""
