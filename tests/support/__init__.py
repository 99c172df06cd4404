"""Servers, proxies and faulty disks for the tests."""
