"""For mkdocs: links that leave docs/ lead to the repository."""

import posixpath
import re

LINK = re.compile(r"(\]\()(\.\./[^)\s]*)(\))")


def on_page_markdown(markdown, page, config, files):
    directory = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def outside(match):
        path, mark, fragment = match[2].partition("#")
        path = posixpath.normpath(posixpath.join(directory, path))
        if path.startswith("docs/"):
            return match[0]
        return f"{match[1]}{config.repo_url.rstrip('/')}/blob/main/{path}{mark}{fragment}{match[3]}"

    return LINK.sub(outside, markdown)
