"""The compiled core; absent in this version, so the reference path runs."""
