"""`shoal report`: what a series of releases lost, promised and kept, as figures, plots and one page."""
