"""A drain command: tells a web hook what outro told it. Usage: notify.py PORT WORDS"""
import os
import sys
import urllib.request

port, *words = sys.argv[1:]
told = [f"{name}={os.environ[name]}" for name in ("OUTRO_SIGNAL", "OUTRO_UPTIME_MS", "OUTRO_DEADLINE_MS")]
urllib.request.urlopen(f"http://127.0.0.1:{port}/", data=" ".join(words + told).encode(), timeout=5).read()
