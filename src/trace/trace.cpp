#include "trace/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "text/utf8.h"
#include "trace/field_reader.h"

namespace talon {
namespace {

constexpr int kVersion = 1;
constexpr float kLeastLogP = -1000;  // JSON has no infinity
constexpr int kMostNodes = 4096;
constexpr int kMostExperts = 1 << 24;  // of a row

Json json_of(const RoundReport& report) {
  const DraftTree& tree = *report.tree;
  std::vector<float> log_p;
  std::vector<std::uint32_t> sources;
  std::vector<NodeId> probes;
  for (NodeId id = 0; id < tree.size(); ++id) {
    const DraftTree::Node& node = tree[id];
    log_p.push_back(std::max(node.log_p, kLeastLogP));
    sources.push_back(node.sources);
    if (node.kind == NodeKind::probe) probes.push_back(id);
  }
  Json json = {{"sequence", report.sequence},
               {"round", report.round},
               {"position", report.position},
               {"token", tree.tokens()},
               {"parent", tree.parents()},
               {"log_p", log_p},
               {"sources", sources},
               {"accepted", std::vector<NodeId>(report.accepted.begin(), report.accepted.end())},
               {"emitted", std::vector<TokenId>(report.emitted.begin(), report.emitted.end())},
               {"distortion", report.distortion},
               {"sequences", report.sequences},
               {"draft_ms", report.draft_ms},
               {"check_ms", report.check_ms},
               {"other_ms", report.other_ms}};
  if (!probes.empty()) json["probes"] = probes;
  if (!report.experts.empty())
    json["experts"] = std::vector<std::int32_t>(report.experts.begin(), report.experts.end());
  return json;
}

constexpr std::int64_t kMostToken = std::numeric_limits<TokenId>::max();

DraftTree read_tree(const FieldReader& line) {
  const auto tokens = line.wholes<TokenId>("token", 0, kMostToken);
  const auto parents = line.wholes<NodeId>("parent", -1, kMostNodes);
  const auto sources =
      line.wholes<std::uint32_t>("sources", 0, std::numeric_limits<std::uint32_t>::max());
  const Json& log_p = line.list("log_p");
  if (tokens.empty()) line.refuse("token", "a root at least");
  const auto require_size = [&](std::size_t size, const char* key) {
    if (size != tokens.size())
      line.refuse(key, fmt::format("{} values, one per node", tokens.size()));
  };
  require_size(parents.size(), "parent");
  require_size(sources.size(), "sources");
  require_size(log_p.size(), "log_p");

  std::vector<bool> is_probe(tokens.size());
  if (line.json().contains("probes")) {
    const auto last = static_cast<std::int64_t>(tokens.size()) - 1;
    for (const auto node : line.wholes<std::size_t>("probes", 1, last)) is_probe[node] = true;
  }

  DraftTree tree(tokens[0]);
  for (std::size_t node = 1; node < tokens.size(); ++node) {
    const bool has_parent = parents[node] >= 0 && parents[node] < static_cast<NodeId>(node);
    if (!has_parent) line.refuse("parent", "earlier nodes");
    const auto value = static_cast<float>(std::clamp(line.number(log_p[node], "log_p"), -1e6, 0.0));
    if (!is_probe[node] && is_probe[static_cast<std::size_t>(parents[node])])
      line.refuse("probes", "none above a node that can become text");
    const NodeId added = is_probe[node]
                             ? tree.add_probe(parents[node], tokens[node], value, sources[node])
                             : tree.add(parents[node], tokens[node], value, sources[node]);
    if (added != static_cast<NodeId>(node)) line.refuse("token", "other tokens than a sibling's");
  }
  return tree;
}

TraceRound read_round(const FieldReader& line) {
  TraceRound round;
  round.sequence = static_cast<SequenceId>(
      line.whole(line.at("sequence"), "sequence", 0, std::numeric_limits<std::int64_t>::max()));
  round.round = line.count("round", 0);
  round.position = line.count("position", 0);
  round.tree = read_tree(line);
  round.accepted = line.wholes<NodeId>("accepted", 0, round.tree.size() - 1);
  if (round.accepted.empty() || round.accepted != round.tree.path(round.accepted.back()) ||
      round.tree[round.accepted.back()].kind == NodeKind::probe) {
    line.refuse("accepted", "a path from the root, without probes");
  }
  round.emitted = line.wholes<TokenId>("emitted", 0, kMostToken);
  if (line.json().contains("text")) {
    for (const Json& text : line.list("text")) {
      if (!text.is_string()) line.refuse("text", "texts");
      round.text.push_back(text);
    }
    if (round.text.size() != round.tree.nodes.size()) line.refuse("text", "one text per node");
  }
  if (line.json().contains("experts")) {
    round.experts = line.wholes<std::int32_t>("experts", 0, kMostExperts);
    if (round.experts.size() != round.tree.nodes.size())
      line.refuse("experts", "one number per node");
  }
  round.distortion = line.number("distortion");
  round.sequences = line.count("sequences", 1);
  round.draft_ms = line.number("draft_ms");
  round.check_ms = line.number("check_ms");
  round.other_ms = line.number("other_ms");
  return round;
}

/// With the text of its tokens.
template <typename TextOf>
Json line_of(const RoundReport& report, TextOf text_of) {
  Json line = json_of(report);
  line["text"] = Json::array();
  for (std::size_t node = 0; node < line["token"].size(); ++node)
    line["text"].push_back(replace_ill_formed(text_of(node)));
  return line;
}

}  // namespace

Json json_of(const TraceRound& round) {
  const RoundReport report = report_of(round);
  if (round.text.empty()) return json_of(report);
  return line_of(report, [&](std::size_t node) { return round.text[node]; });
}

TraceWriter::TraceWriter(const std::filesystem::path& file, Json about,
                         std::function<std::string(TokenId)> bytes_of)
    : path_(file), file_(file, std::ios::binary | std::ios::trunc), bytes_of_(std::move(bytes_of)) {
  expects(about.is_object(), "an object that describes the run");
  if (!file_) fail("write trace {}: {}", path_.string(), std::strerror(errno));
  about["trace"] = kVersion;
  write_line(about);
}

void TraceWriter::write(const RoundReport& report) {
  if (!bytes_of_) return write_line(json_of(report));
  write_line(
      line_of(report, [&](std::size_t node) { return bytes_of_(report.tree->nodes[node].token); }));
}

void TraceWriter::write_line(const Json& line) {
  file_ << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  if (!file_) fail("write trace {}: the file takes no more", path_.string());
}

void TraceWriter::finish() {
  file_.close();
  if (!file_) fail("write trace {}: the file takes no more", path_.string());
}

Trace read_trace(const std::filesystem::path& file) {
  std::error_code problem;  // what cannot be looked at cannot be opened below
  if (std::filesystem::is_directory(file, problem))
    fail("read trace {}: expected a file, found a folder", file.string());
  errno = 0;
  std::ifstream input(file, std::ios::binary);
  if (!input) fail("read trace {}: {}", file.string(), std::strerror(errno));
  Trace trace;
  int number = 0;
  for (std::string text; std::getline(input, text);) {
    ++number;
    const FieldReader line(fmt::format("read trace {}, line {}", file.string(), number), text);
    if (number > 1) {
      trace.rounds.push_back(read_round(line));
      continue;
    }
    line.whole(line.at("trace"), "trace", kVersion, kVersion);
    trace.about = line.json();
  }
  if (number == 0) fail("read trace {}: expected JSON lines, found an empty file", file.string());
  return trace;
}

RoundReport report_of(const TraceRound& round) {
  RoundReport report;
  report.sequence = round.sequence;
  report.round = round.round;
  report.position = round.position;
  report.tree = &round.tree;
  report.experts = round.experts;
  report.accepted = round.accepted;
  report.emitted = round.emitted;
  report.distortion = round.distortion;
  report.sequences = round.sequences;
  report.draft_ms = round.draft_ms;
  report.check_ms = round.check_ms;
  report.other_ms = round.other_ms;
  return report;
}

TraceRound keep(const RoundReport& report) {
  return {report.sequence,
          report.round,
          report.position,
          *report.tree,
          {},
          {report.accepted.begin(), report.accepted.end()},
          {report.emitted.begin(), report.emitted.end()},
          report.distortion,
          report.sequences,
          report.draft_ms,
          report.check_ms,
          report.other_ms,
          {report.experts.begin(), report.experts.end()}};
}

}  // namespace talon
