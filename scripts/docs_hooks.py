"""For mkdocs: links that leave docs/ lead to the repository, and the program that draws diagrams is part of the site."""

import pathlib
import posixpath
import re
import shutil

DIAGRAMS = "assets/javascripts/mermaid.min.js"  # extra_javascript of mkdocs.yml
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


def on_post_build(config):
    root = pathlib.Path(config.config_file_path).parent
    target = pathlib.Path(config.site_dir) / DIAGRAMS
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / ".deps/npm/node_modules/mermaid/dist/mermaid.min.js", target)
