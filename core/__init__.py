"""The pure part of Shoal: decides what is published, from data alone. Private: `import shoal` has what is public."""
