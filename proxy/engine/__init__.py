"""The simulated engine: a server to stand behind the proxy in demos and tests.

It speaks the interfaces of OpenAI, Anthropic and Ollama, streamed and not, at a speed that is set
(see `pace` for the formulas) and with exact token counts; what it says means nothing.
"""

from proxy.engine.app import build_app
from proxy.engine.server import engine_server, serve_engine, url
from proxy.engine.settings import EngineSettings

__all__ = ["EngineSettings", "build_app", "engine_server", "serve_engine", "url"]
