"""Files of the folder "www": `wsgi` for gunicorn, `asgi` for uvicorn; by itself, aiohttp: serve PORT, or fetch URL."""

import asyncio
import pathlib
import sys


def wsgi(environ, start_response):
    body = pathlib.Path("www" + environ["PATH_INFO"]).read_bytes()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    assert scope["type"] == "http", scope
    body = pathlib.Path("www" + scope["path"]).read_bytes()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def fetch(url):
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        sys.stdout.write(await answer.text())


def serve(port):
    from aiohttp import web

    application = web.Application()
    application.router.add_static("/", "www")
    web.run_app(application, port=port)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        asyncio.run(fetch(sys.argv[2]))
