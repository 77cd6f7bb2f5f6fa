"""Quotas, choosing and balancing in lasting tables."""
