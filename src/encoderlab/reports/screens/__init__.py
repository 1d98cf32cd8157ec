"""What commands that train nothing show on the screen."""
