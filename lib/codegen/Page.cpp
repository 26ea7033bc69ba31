#include "codegen/Page.h"

using namespace llvm;

namespace heterplan::html {

namespace {
constexpr const char *style = R"css(
:root { color-scheme: light dark; --ink: #1d2430; --soft: #667085; --line: #dfe3e8; --paper: #fff;
  --forward: #4878a8; --backward: #b8683c; --transfer: #a9b1bb; --sync: #5d8a66; --regressed: #8a6fa8; --bad: #b42318; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #98a2b3; --line: #343b46;
  --paper: #14181f; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 70rem; margin: 2.5rem auto; padding: 0 1.5rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; }
p.lead, p.note, footer { color: var(--soft); } p.note, footer { font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; font-size: .8rem; color: var(--soft); }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word; max-width: 22rem; }
td.n, th.n { text-align: right; white-space: nowrap; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1rem;
  margin: 1.4rem 0 0; }
dt { font-size: .8rem; color: var(--soft); } dd { margin: 0; font-size: 1.15rem; }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg .tick { fill: var(--soft); }
svg .number { fill: #fff; text-anchor: middle; } svg line { stroke: var(--line); }
svg .front { fill: none; stroke: var(--soft); } svg line.bound { stroke: var(--backward); }
.forward { fill: var(--forward); } .backward { fill: var(--backward); }
.transfer { fill: var(--transfer); } .sync { fill: var(--sync); }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .4em 0 1.2em; }
.bar .forward, .key .forward { background: var(--forward); } .bar .backward, .key .backward { background: var(--backward); }
.bar .transfer, .key .transfer { background: var(--transfer); } .bar .sync, .key .sync { background: var(--sync); }
.bar.fill { background: var(--line); min-width: 6rem; margin: .45rem 0; } svg .flow { fill: none; stroke: var(--soft); }
.bar .regressed, .key .regressed { background: var(--regressed); }
.wide { overflow-x: auto; background: linear-gradient(to right, var(--paper) 30%, transparent) 0 0 / 2rem 100% no-repeat local,
  linear-gradient(to left, var(--paper) 30%, transparent) 100% 0 / 2rem 100% no-repeat local,
  linear-gradient(to right, var(--line), transparent) 0 0 / .7rem 100% no-repeat,
  linear-gradient(to left, var(--line), transparent) 100% 0 / .7rem 100% no-repeat; } .wide svg { min-width: 46rem; }
@media (max-width: 40rem) { body { margin: 1rem auto; padding: 0 .8rem; } h1 { font-size: 1.2rem; }
  dl { grid-template-columns: repeat(auto-fill, minmax(8rem, 1fr)); } dd { font-size: 1rem; }
  .wide table, .wide tbody, .wide tr, .wide td { display: block; width: auto; } .wide th { display: none; }
  .wide tr { border-bottom: 1px solid var(--line); padding: .4rem 0; }
  .wide td { border: 0; padding: .1rem 0; text-align: left; white-space: normal;
    max-width: none; overflow-wrap: anywhere; }
  .wide td:empty { display: none; }
  .wide td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); } }
.bad { color: var(--bad); font-weight: 600; }
.bar { display: flex; height: .7rem; border-radius: .35rem; overflow: hidden; }
details summary { cursor: pointer; color: var(--soft); }
)css";
} // namespace

std::string wide(const std::string &html) {
  return html.empty() ? "" : "<div class=\"wide\">\n" + html + "</div>\n";
}

std::string term(StringRef name, const std::string &value) {
  return "<div>" + element("dt", name) + element("dd", value) + "</div>\n";
}

std::string row(const std::vector<std::string> &cells, ArrayRef<bool> numeric, StringRef tag) {
  std::string html = "<tr>";
  for (size_t i = 0; i < cells.size(); ++i)
    html += element(tag, cells[i], numeric[i] ? "class=\"n\"" : "");
  return html + "</tr>\n";
}

namespace {
/// The texts of the cells of a row of headings.
std::vector<std::string> headingsOf(StringRef row) {
  std::vector<std::string> headings;
  for (size_t at = row.find("<th"); at != StringRef::npos; at = row.find("<th", at + 1))
    headings.push_back(row.substr(at).split('>').second.split("</th>").first.str());
  return headings;
}

std::string labelledRow(StringRef row, const std::vector<std::string> &headings) {
  std::string html;
  size_t column = 0;
  for (size_t at = row.find("<td"); at != StringRef::npos; at = row.find("<td"), ++column) {
    html += row.take_front(at + 3);
    row = row.drop_front(at + 3);
    if (column < headings.size() && !headings[column].empty())
      html += " data-label=\"" + headings[column] + "\"";
  }
  return html + row.str();
}

/// `html` with the heading of its column on each cell of a table: on a narrow screen a row becomes
/// a list of headings and cells.
std::string labelled(StringRef html) {
  std::string result;
  std::vector<std::string> headings;
  for (size_t at = html.find("<tr>"); at != StringRef::npos; at = html.find("<tr>")) {
    result += html.take_front(at);
    html = html.drop_front(at);
    size_t end = std::min(html.find("</tr>"), html.size());
    StringRef row = html.take_front(end);
    if (std::vector<std::string> found = headingsOf(row); !found.empty())
      headings = std::move(found);
    result += labelledRow(row, headings);
    html = html.drop_front(end);
  }
  return result + html.str();
}
} // namespace

std::string page(StringRef title, const std::string &body) {
  std::string heading = escape(title);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         heading + "</title>\n<style>" + style + "</style>\n</head>\n<body>\n<h1>" + heading +
         "</h1>\n" + labelled(body) + "</body>\n</html>\n";
}

} // namespace heterplan::html
