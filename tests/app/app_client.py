"""A client that talks to the app as a browser on this computer does."""

import re
import sys

from starlette.testclient import TestClient

PORT = 8765
ADDRESS = f"http://127.0.0.1:{PORT}"
COMMAND = [sys.executable, "-c", "from tacit.cli.main import main; main()"]


class Client(TestClient):
    """A browser: it sends `Origin` with forms, and the token of the page that it loaded before."""

    def form_token(self, page="/data"):
        return re.search('name="form_token" value="([0-9a-f]+)"', self.get(page).text)[1]

    def submit(self, path, fields, *, page="/data", follow=True, **further):
        fields = {"form_token": self.form_token(page), **fields}
        return self.post(path, data=fields, headers={"Origin": ADDRESS}, follow_redirects=follow, **further)

    def upload(self, name, content, path="/data/upload", *, page="/data", **fields):
        """Send a file as the script of a page does, then the form that names it."""
        headers = {"Origin": ADDRESS, "X-Form-Token": self.form_token(page)}
        received = self.post("/upload", content=content, headers=headers)
        if received.status_code != 200:
            return received
        return self.submit(path, {"file": name, "upload": received.text, **fields}, page=page)
