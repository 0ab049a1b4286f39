"""Pages of the admin that belong to no single model; registered in config/admin_site.py."""
