"""What people look at: heat maps laid over images, and the report of a scored folder."""
