"""Slack over HTTP: one request in, Bolt's answer out. Bolt checks the signature; what its check trips over is refused before."""

from collections.abc import Callable, Mapping

from slack_bolt import App, BoltRequest

from handlers.answer import Answer, said


def answering(app: App) -> Callable[[Mapping[str, str], bytes], Answer]:
    """A function for the web layer (header names in lower case). It blocks until the listener has acknowledged."""

    def answer(headers: Mapping[str, str], body: bytes) -> Answer:
        stamp = headers.get("x-slack-request-timestamp", "")
        if not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:  # the verifier of slack_sdk raises ValueError
            return said(401, error="invalid request: X-Slack-Request-Timestamp is no number")
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            return said(400, error="invalid request: the body is not UTF-8")
        response = app.dispatch(BoltRequest(body=text, headers=dict(headers)))
        kept = {name: value for name, value in response.first_headers_without_set_cookie().items() if name.lower() != "content-type"}
        return Answer(response.status, str(response.body or "").encode(), response.first_headers().get("content-type", "text/plain"), kept)

    return answer
