#include "train/head/curves.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace talon {
namespace {

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  std::ifstream input(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(input, line);) lines.push_back(line);
  return lines;
}

constexpr std::string_view kPageBegin =
    R"(<!doctype html><meta charset="utf-8"><title>talon train head</title>
<style>body{font:14px sans-serif;margin:1em;max-width:70em}svg{border:1px solid #ccc;margin:.3em}</style>
<h1>Learning curves</h1><div id="plots"></div><script>const files=)";
constexpr std::string_view kPageEnd = R"(;
const colours=["#1f77b4","#d62728","#2ca02c","#9467bd","#ff7f0e","#8c564b","#17becf"];
function plot(title,x,series){const W=520,H=260,m=42,all=Object.values(series).flat().filter(Number.isFinite);
if(!all.length)return;let lo=Math.min(...all),hi=Math.max(...all);if(lo==hi)hi=lo+1;
const x0=Math.min(...x),x1=Math.max(...x,x0+1),px=v=>m+(v-x0)/(x1-x0)*(W-m-8),py=v=>H-m+(v-lo)/(hi-lo)*(m+18-H);
let s=`<svg width=${W} height=${H}><text x=${m} y=13>${title}</text>`;
for(let i=0;i<=4;i++){const v=lo+(hi-lo)*i/4;s+=`<text x=2 y=${py(v)+4} font-size=10>${v.toPrecision(3)}</text><line x1=${m} x2=${W-8} y1=${py(v)} y2=${py(v)} stroke=#eee />`}
s+=`<text x=${m} y=${H-24} font-size=10>${x0.toLocaleString()}</text><text x=${W-80} y=${H-24} font-size=10>${x1.toLocaleString()} pairs</text>`;
Object.entries(series).forEach(([n,v],i)=>{const c=colours[i%7];s+=`<polyline fill=none stroke="${c}" points="${v.map((y,k)=>Number.isFinite(y)?px(x[k])+","+py(y):"").join(" ")}"/><text x=${m+i*70} y=${H-6} font-size=11 fill="${c}">${n}</text>`});
document.getElementById("plots").insertAdjacentHTML("beforeend",s+"</svg>")}
for(const rows of files){if(rows.length<2)continue;const names=rows[0],cols=names.map((_,i)=>rows.slice(1).map(r=>parseFloat(r[i])));
const x=cols[names.indexOf("pairs")],groups={};names.forEach((n,i)=>{if(["iteration","pairs","seconds","epoch"].includes(n))return;
const g=n.replace(/_?[0-9]+$/,"");(groups[g]??={})[n]=cols[i]});for(const[g,s]of Object.entries(groups))plot(g,x,s)}
</script>)";

}  // namespace

CurveFile::CurveFile(std::filesystem::path file, std::int64_t from_iteration)
    : file_(std::move(file)) {
  std::string kept;
  for (const std::string& line : read_lines(file_)) {
    const bool header = kept.empty();
    if (header || std::atoll(line.c_str()) <= from_iteration) kept += line + "\n";
  }
  if (from_iteration == 0) kept.clear();
  write_file(file_, std::as_bytes(std::span(kept)));
}

void CurveFile::append(const CurveRow& row) {
  std::string header, values;
  for (const auto& [name, value] : row) {
    header += (header.empty() ? "" : ",") + name;
    values += fmt::format("{}{:.9g}", values.empty() ? "" : ",", value);
  }
  const bool empty = std::filesystem::file_size(file_) == 0;
  std::ofstream output(file_, std::ios::app);
  if (empty) output << header << "\n";
  output << values << "\n";
  output.flush();
  if (!output) fail("write {}: {}", file_.string(), std::strerror(errno));
}

void write_curve_page(const std::filesystem::path& page,
                      const std::vector<std::filesystem::path>& csv_files) {
  Json files = Json::array();
  for (const auto& file : csv_files) {
    Json rows = Json::array();
    for (const std::string& line : read_lines(file)) {
      Json cells = Json::array();
      std::istringstream input(line);
      for (std::string cell; std::getline(input, cell, ',');) cells.push_back(cell);
      rows.push_back(cells);
    }
    files.push_back(rows);
  }
  const std::string text = std::string(kPageBegin) + files.dump() + std::string(kPageEnd);
  write_file(page, std::as_bytes(std::span(text)));
}

}  // namespace talon
