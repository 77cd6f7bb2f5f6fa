"""`/schemas`: JSON Schemas and the AsyncAPI document of this version, for programs that read or write the topics."""

from typing import Any

import faust
from aiohttp.web import Response

from shoal.streams.files.schemas import DOCUMENTS, write_document


def add_schema_views(app: faust.App) -> None:
    """`/schemas` lists the files, and each is below it. A worker writes one when it is first asked for it."""
    files = {document.file: what for what, document in DOCUMENTS.items()}

    @app.page("/schemas", name="schemas")
    async def schemas(view: Any, _request: Any) -> Any:
        return view.json({"schemas": [f"/schemas/{file}" for file in files]})

    @app.page("/schemas/{file}", name="schema")
    async def schema(view: Any, _request: Any, file: str) -> Any:
        if file not in files:
            return view.json({"error": "there is no such schema; /schemas lists them"}, status=404)
        return Response(text=write_document(files[file]), content_type="application/json")
