"""SDCACRF, SDCACRFCV and crf_path."""
