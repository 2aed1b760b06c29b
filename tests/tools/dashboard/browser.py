"""A headless Chromium, driven by the WebDriver protocol (W3C) over HTTP: no package is needed."""

import base64
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # key of an element in the WebDriver protocol
PATIENCE_S = 20
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Gone(RuntimeError):
    """An element that the page has no more: it draws parts of itself anew as news come."""


class Browser:
    """A context manager. `width` x `height` are the page's."""

    def __init__(self, width, height, dark=False):
        self.driver = shutil.which("chromedriver")
        self.chromium = shutil.which("chromium")
        self.size = (width, height)
        self.dark = dark

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory()
        self.log = open(pathlib.Path(self.profile.name) / "driver.log", "w+")
        self.process = subprocess.Popen([self.driver, "--port=0"], stdout=self.log, stderr=self.log)
        try:
            self.base = f"http://127.0.0.1:{self._port()}"
            flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--hide-scrollbars", "--no-first-run", "--disable-extensions",
                     "--disable-background-networking", "--no-proxy-server", "--disable-component-update",
                     f"--user-data-dir={self.profile.name}/profile",
                     f"--window-size={self.size[0]},{self.size[1]}"]
            if self.dark:
                flags.append("--blink-settings=preferredColorScheme=0")
            session = self._send("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {"binary": self.chromium, "args": flags}}}})
            self.base += f"/session/{session['sessionId']}"
            self.resize(*self.size)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            if "/session/" in getattr(self, "base", ""):
                self._send("DELETE", "")
        except OSError:
            pass
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.profile.name, ignore_errors=True)

    def _port(self):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            text = pathlib.Path(self.log.name).read_text()
            found = re.search(r"started successfully on port (\d+)", text)
            if found:
                return int(found[1])
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"chromedriver did not start: {pathlib.Path(self.log.name).read_text()}")

    def _send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"},
                                         method=method)
        try:
            with DIRECT.open(request, timeout=PATIENCE_S) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as failure:
            value = json.load(failure)["value"]
            kind = Gone if value["error"] in ("stale element reference", "no such element") else RuntimeError
            raise kind(value["message"]) from None

    def resize(self, width, height):
        """Of the page, whatever the window's frame; narrower than a window may be, too."""
        self._send("POST", "/goog/cdp/execute", {
            "cmd": "Emulation.setDeviceMetricsOverride",
            "params": {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}})

    def open(self, url):
        self._send("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The body of a function of `arguments`; returns what it does."""
        return self._send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, condition, *arguments):
        """Until this expression holds; returns its value."""
        end = time.monotonic() + PATIENCE_S
        while True:
            value = self.run(f"return {condition}", *arguments)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"never came: {condition} {arguments}; the page says:\n"
                                     + self.run("return document.body.innerText"))
            time.sleep(0.03)

    def look(self, at_page, *arguments):
        """What the function says of the page, asked again if the page was drawn anew meanwhile."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return at_page(self, *arguments)
            except Gone:
                if time.monotonic() > end:
                    raise

    def element(self, selector):
        return self._send("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self._send("POST", f"/element/{self.element(selector)}/click", {})

    def write(self, selector, text):
        element = self.element(selector)
        self._send("POST", f"/element/{element}/clear", {})
        self._send("POST", f"/element/{element}/value", {"text": text})

    def name_of(self, selector):
        """As a screen reader says it."""
        return self._send("GET", f"/element/{self.element(selector)}/computedlabel")

    def console(self):
        return self._send("POST", "/se/log", {"type": "browser"})

    def screenshot(self, path, whole=False):
        if whole:
            height = self.run("return document.documentElement.scrollHeight")
            self.resize(self.run("return innerWidth"), height)
            time.sleep(0.2)
        pathlib.Path(path).write_bytes(base64.b64decode(self._send("GET", "/screenshot")))
