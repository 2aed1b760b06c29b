#!/usr/bin/env python3
"""Pages of reports, as `tandem` writes them: well-formed, whole, and at work in a browser.

usage: pages_check.py TANDEM

Every page is parsed as XML and must need nothing from elsewhere. Where there is Chromium, it opens all of
them at a phone's width: no errors on its console, no page wider than the screen, tables that sort.
Without it that part is left out.
"""
import html
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

PHONE = 390
HOSTILE = '"><script>document.title="hacked"</script>&amp;'


def pages_of(tandem, folder):
    """(name, text) of a page of each kind that takes no time. Those of other benchmarks are of the same parts."""
    data = pathlib.Path(__file__).resolve().parents[2] / 'data'
    def run(*args):
        home = {**os.environ, 'HOME': str(folder), 'XDG_CONFIG_HOME': str(folder)}  # it has no profile
        subprocess.run([tandem, *args], check=True, stdout=subprocess.DEVNULL, timeout=60, env=home)

    def page(name):
        return str(folder / f'{name}.html')

    result = str(folder / 'run.json')
    run('bench', 'serve', '--stub', '--num-prompts', '40', '--request-rate', '400', '--input-len', '8', '--output-len', '4',
        '--lora-modules', HOSTILE, 'adapter-2', 'adapter-10', '--label', HOSTILE, '--save-detailed', '--result-filename', result,
        '--html', page('serve'))
    run('bench', 'serve', '--compare', result, result, '--html', page('compare'))
    run('simulate', '--compare', 'random,tandem', '--engines', '2', '--load', '0.8', '--duration-s', '40', '--warmup-s', '5',
        '--adapters', '100', '--html', page('simulate'))
    run('profile', '--map', '--html', page('profile'))
    run('pin', 'show', '--synthetic', 'pack:2 node:2 core:12 pu:2', '--gpu-node', '1', '--html', page('pin'))
    run('bench', 'route', '--engines', '20', '--decisions', '300', '--requests', '0', '--html', page('bench_route'))
    run('bench', 'tokenizer', '--model', str(data / 'demo-llama'), '--text', str(data / 'tokenizers/corpus.txt'),
        '--megabytes', '0.05', '--rounds', '5', '--html', page('bench_tokenizer'))
    return [(path.stem, path.read_text()) for path in sorted(folder.glob('*.html'))]


def check_text(name, text):
    root = ElementTree.fromstring(text.split('\n', 1)[1])  # without the doctype
    assert root.tag == 'html' and root.find('head/title').text, name
    assert len(root.findall('.//script')) == 1, f'{name}: a script that is not ours'
    for element in root.iter():
        for attribute in ('src', 'href', 'style', 'onclick', 'onload'):
            assert attribute not in element.attrib, f'{name}: {element.tag} {attribute}'
    facts = {row.find('th').text: row.find('td') for row in root.findall(".//table[@class='facts']/tbody/tr")}
    assert 'tandem' in ''.join(facts['command'].itertext()), name
    assert facts['commit'].text and facts['machine'].text, name
    headings = [element.tag for element in root.find('body')]
    assert headings.index('dl') < headings.index('h2'), f'{name}: the summary comes first'
    if name == 'pin':  # the page has a picture
        assert len(root.findall('.//{*}rect')) > 100, name
    else:
        lines = root.findall(".//figure/svg/path[@class]")
        assert len(lines) >= 2 and all(line.find('title').text for line in lines), f'{name}: no plots'


# Runs in the browser: reports each page's layout at a phone's width, and the first column of
# figures after its heading is pressed once and twice.
DRIVER = '''
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument;
    const table = page.querySelector("table.sorts");
    const head = table && table.querySelector("th.n");
    const column = () => [...table.tBodies[0].rows].map(row => row.cells[head.cellIndex].textContent);
    const names = () => [...table.tBodies[0].rows].map(row => row.cells[0].textContent);
    const pressed = what => { what.querySelector("button").click(); return what.getAttribute("aria-sort"); };
    return { name: frame.title, width: page.documentElement.scrollWidth, title: page.title,
             orders: head && [pressed(head), column(), pressed(head), column()],
             names: table && [pressed(table.querySelector("th")), names()] };
  });
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
});
'''


def check_in_browser(chromium, folder, pages):
    frames = ''.join(f'<iframe title="{name}" width="{PHONE}" height="800" srcdoc="{html.escape(text)}"></iframe>' for name, text in pages)
    driver = folder / 'driver.html'
    driver.write_text(f'<!DOCTYPE html><html><body><script>{DRIVER}</script>{frames}</body></html>')
    ran = subprocess.run([chromium, '--headless', '--no-sandbox', '--disable-gpu', f'--user-data-dir={folder}/chromium',
                          '--enable-logging=stderr', '--dump-dom', driver.as_uri()],
                         capture_output=True, text=True, timeout=60)
    errors = [line for line in ran.stderr.splitlines() if ':CONSOLE' in line]
    assert not errors, errors
    dom = ran.stdout
    assert '<pre id="result">' in dom, f'no result from the browser: {ran.stderr[-2000:]}'
    found = json.loads(html.unescape(dom.split('<pre id="result">')[1].split('</pre>')[0]))
    assert [one['name'] for one in found] == [name for name, _ in pages]
    for one in found:
        assert one['title'] != 'hacked', one
        assert one['width'] <= PHONE, f'{one["name"]} is {one["width"]} wide'
        if one['orders'] is None:
            continue
        down, largest_first, up, smallest_first = one['orders']
        figures = [float(text.split()[0]) for text in largest_first if text]
        assert (down, up) == ('descending', 'ascending'), one
        assert figures == sorted(figures, reverse=True), one
        assert [float(text.split()[0]) for text in smallest_first if text] == sorted(figures), one
    names = next(one for one in found if one['name'] == 'serve')['names']
    assert names[0] == 'ascending' and names[1].index('adapter-2') < names[1].index('adapter-10'), names


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        pages = pages_of(sys.argv[1], folder)
        assert len(pages) == 7
        for page, text in pages:
            check_text(page, text)
        chromium = shutil.which('chromium')
        if chromium is None:
            print(f'{len(pages)} pages are well-formed; no chromium, so none was opened')
            return
        check_in_browser(chromium, folder, pages)
        print(f'{len(pages)} pages are well-formed, and work in a browser')


main()
