#include "trace/tree_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "draft/registry.h"
#include "text/utf8.h"

namespace talon {
namespace {

constexpr std::string_view kAcceptedBegin = "\x1b[1;32m";
constexpr std::string_view kAcceptedEnd = "\x1b[0m";
constexpr std::string_view kCheckMark = "\u2713";

std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }

/// Writes the lines of one tree.
class TreeWriter {
 public:
  TreeWriter(const RoundReport& report, const TreeTextOptions& options)
      : tree_(*report.tree),
        options_(options),
        children_(tree_.nodes.size()),
        accepted_(tree_.nodes.size()) {
    for (NodeId node = 1; node < tree_.size(); ++node)
      children_[index(tree_[node].parent)].push_back(node);
    for (std::vector<NodeId>& siblings : children_) {
      std::stable_sort(siblings.begin(), siblings.end(),
                       [&](NodeId a, NodeId b) { return tree_[a].log_p > tree_[b].log_p; });
    }
    for (const NodeId node : report.accepted) accepted_[index(node)] = true;
  }

  std::string write() {
    out_ = piece(tree_[0].token) + "\n";
    write_children(0, "");
    return std::move(out_);
  }

 private:
  void write_children(NodeId node, const std::string& indent) {
    const std::vector<NodeId>& siblings = children_[index(node)];
    for (std::size_t i = 0; i < siblings.size(); ++i) {
      const bool is_last = i + 1 == siblings.size();
      out_ += indent + (is_last ? "\u2514\u2500 " : "\u251c\u2500 ");
      const NodeId end = write_run(siblings[i]);
      write_children(end, indent + (is_last ? "   " : "\u2502  "));
    }
  }

  /// A node and what follows it without siblings, on one line. Returns the last of them.
  NodeId write_run(NodeId node) {
    while (true) {
      out_ += label(node);
      if (children_[index(node)].size() != 1) break;
      node = children_[index(node)].front();
      out_ += "  ";
    }
    out_ += "\n";
    return node;
  }

  std::string label(NodeId node) const {
    const double chance = std::exp(static_cast<double>(tree_[node].log_p));
    std::string text = fmt::format("{:.0f}% {}", 100 * chance, piece(tree_[node].token));
    text += source_text(tree_[node].sources);
    if (!accepted_[index(node)]) return text;
    text += fmt::format(" {}", kCheckMark);
    return options_.color ? fmt::format("{}{}{}", kAcceptedBegin, text, kAcceptedEnd) : text;
  }

  std::string source_text(std::uint32_t sources) const {
    std::string text;
    for (std::size_t i = 0; i < options_.sources.size(); ++i) {
      if (sources >> i & 1u) text += (text.empty() ? " (" : ", ") + options_.sources[i];
    }
    return text.empty() ? text : text + ")";
  }

  std::string piece(TokenId token) const {
    return options_.bytes_of ? quoted_piece(options_.bytes_of(token)) : fmt::format("{}", token);
  }

  const DraftTree& tree_;
  const TreeTextOptions& options_;
  std::vector<std::vector<NodeId>> children_;
  std::vector<bool> accepted_;
  std::string out_;
};

std::string expert_text(const RoundReport& report) {
  if (report.experts.empty()) return "";
  return fmt::format(", {} experts",
                     std::accumulate(report.experts.begin(), report.experts.end(), 0));
}

}  // namespace

std::string quoted_piece(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : replace_ill_formed(bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::vector<std::string> source_names(std::string_view drafter) {
  std::vector<std::string> names;
  for (const std::string_view part : split_drafters(drafter))
    names.emplace_back(part.substr(0, part.find(':')));
  if (names.size() == 1) names.clear();
  return names;
}

std::string tree_text(const RoundReport& report, const TreeTextOptions& options) {
  const int nodes = report.tree->draft_nodes();
  const int accepted = std::max(0, static_cast<int>(report.accepted.size()) - 1);
  std::string text = fmt::format(
      "round {} at position {}: {} of {} draft {} accepted; draft {:.2f} ms, check {:.2f} ms, "
      "other {:.2f} ms{}\n",
      report.round, report.position, accepted, nodes, nodes == 1 ? "node" : "nodes",
      report.draft_ms, report.check_ms, report.other_ms, expert_text(report));
  text += TreeWriter(report, options).write();
  std::string pieces;
  for (const TokenId token : report.emitted) {
    pieces +=
        " " + (options.bytes_of ? quoted_piece(options.bytes_of(token)) : fmt::format("{}", token));
  }
  return text + "text:" + pieces + "\n";
}

}  // namespace talon
