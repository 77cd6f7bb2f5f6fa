"""Groups of a redrawn table: who is published with whom, and what it costs them (Wong, Xiao-Tao)."""
