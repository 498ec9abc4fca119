"""Reads manifests of Kubernetes by the models of its API, and prints what they amount to as JSON.

Usage: kubernetes_models.py FILE. What a model does not know, lacks, or has of another kind is an
error: whatever is read is written again, and has to be the same.
"""

import json
import sys

import yaml
from kubernetes import client


class Answer:
    def __init__(self, data):
        self.data = json.dumps(data)


def difference(path, given, written):
    """The first place where they differ, or None."""
    if isinstance(given, dict) and isinstance(written, dict):
        for key in sorted(given.keys() | written.keys()):
            if key not in written:
                return f"{path}.{key}: no such field"
            if key not in given:
                return f"{path}.{key}: was made up"
            found = difference(f"{path}.{key}", given[key], written[key])
            if found:
                return found
        return None
    if isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        for number, pair in enumerate(zip(given, written)):
            found = difference(f"{path}[{number}]", *pair)
            if found:
                return found
        return None
    # Numbers of quantities and of booleans are no texts, and the other way round.
    same = type(given) is type(written) and given == written
    return None if same else f"{path}: {given!r} is read as {written!r}"


def main():
    api = client.ApiClient()
    documents = []
    with open(sys.argv[1], encoding="utf-8") as file:
        for document in yaml.safe_load_all(file):
            group = document["apiVersion"].split("/")
            prefix = "".join(word.capitalize() for word in group[-1:])
            model = f"{prefix}{document['kind']}"
            if not hasattr(client, model):
                sys.exit(f"there is no {document['apiVersion']} {document['kind']}")
            try:
                read = api.deserialize(Answer(document), model)
            except ValueError as wrong:
                sys.exit(f"{model}: {wrong}")
            found = difference(model, document, api.sanitize_for_serialization(read))
            if found:
                sys.exit(found)
            documents.append(document)
    json.dump(documents, sys.stdout)


main()
