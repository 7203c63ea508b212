"""`normscope serve`: fitted models over HTTP, and a page to drop images on."""
