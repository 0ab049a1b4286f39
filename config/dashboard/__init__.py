"""The admin's home page: what needs attention, five tiles, three plots."""
