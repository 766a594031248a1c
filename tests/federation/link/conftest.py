from federation.link.wired import federation, keys

__all__ = ["federation", "keys"]
