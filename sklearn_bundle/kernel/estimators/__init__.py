"""SwapSVC, SwapSVR, SwapNoveltyDetector and their searches."""
