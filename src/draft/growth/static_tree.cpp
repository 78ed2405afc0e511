#include "draft/growth/static_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr std::size_t kMostNodes = 1024;
constexpr std::size_t kMostLevels = 64;
constexpr int kMostRanks = 64;
constexpr std::size_t kLargestFile = 1 << 20;

class StaticTreeGrowth : public TreeGrowth {
 public:
  StaticTreeGrowth(StaticTree shape, int nodes, const LevelPolicy& policy)
      : shape_(std::move(shape)), nodes_(nodes), policy_(policy), grown_(shape_.nodes.size()) {
    for (const auto& node : shape_.nodes) {
      if (node.parent >= 0) grown_[static_cast<std::size_t>(node.parent)].expanded = true;
    }
  }

  std::span<const GrowthRow> grow(const RowChildren& children, int first_row) override {
    rows_.clear();
    std::vector<float> scores;
    const int rows_before = row_count_;
    for (; next_ < shape_.nodes.size() && shape_.nodes[next_].level == level_; ++next_) {
      place(next_, children, first_row);
      if (grown_[next_].placed) scores.push_back(grown_[next_].score);
    }
    newest_rows_begin_ = rows_before;
    ++level_;
    if (rows_.empty() || !goes_on(scores)) {
      next_ = shape_.nodes.size();
      return {};
    }
    return rows_;
  }

  void finish(DraftTree& tree, std::uint32_t source) const override {
    std::vector<NodeId> node_of(grown_.size(), -1);
    for (std::size_t i = 0; i < grown_.size(); ++i) {
      if (!grown_[i].placed) continue;
      const int parent = shape_.nodes[i].parent;
      node_of[i] = tree.add(parent < 0 ? 0 : node_of[static_cast<std::size_t>(parent)],
                            grown_[i].token, grown_[i].score, source);
    }
    tree.prune(nodes_);
  }

 private:
  struct Grown {
    bool expanded = false;  // has children in the shape
    bool placed = false;
    TokenId token = 0;
    float score = 0;
    int row = -1;
  };

  /// Gives node `index` the token of its rank among its parent's children, and a row if it has
  /// children itself.
  void place(std::size_t index, const RowChildren& children, int first_row) {
    const StaticTree::Node& node = shape_.nodes[index];
    const Grown* parent =
        node.parent < 0 ? nullptr : &grown_[static_cast<std::size_t>(node.parent)];
    if (node.rank >= children.count || (parent && !parent->placed)) return;
    const int parent_row = parent ? parent->row - newest_rows_begin_ : 0;
    const auto i = static_cast<std::size_t>((first_row + parent_row) * children.count + node.rank);
    if (!std::isfinite(children.log_p[i])) return;
    Grown& grown = grown_[index];
    grown.placed = true;
    grown.token = children.token[i];
    grown.score = (parent ? parent->score : 0.0F) + std::min(children.log_p[i], 0.0F);
    if (!grown.expanded) return;
    grown.row = row_count_++;
    rows_.push_back({grown.token, parent ? parent->row : -1});
  }

  bool goes_on(std::vector<float>& scores) const {
    std::sort(scores.begin(), scores.end(), std::greater<>());
    return policy_.expand(level_, scores) > 0;
  }

  StaticTree shape_;
  int nodes_;
  LevelPolicy policy_;
  std::vector<Grown> grown_;
  std::size_t next_ = 0;
  int level_ = 0;
  int row_count_ = 0;
  int newest_rows_begin_ = 0;
  std::vector<GrowthRow> rows_;
};

using Path = std::vector<int>;

bool shorter_or_before(const Path& a, const Path& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

void check_path(const Path& path, std::string_view doing) {
  if (path.empty() || path.size() > kMostLevels) {
    fail("{}: expected paths of 1 to {} ranks, found one of {}", doing, kMostLevels, path.size());
  }
  for (const int rank : path) {
    if (rank < 0 || rank >= kMostRanks) {
      fail("{}: expected ranks from 0 to {}, found {}", doing, kMostRanks - 1, rank);
    }
  }
}

std::string show(const Path& path) { return fmt::format("[{}]", fmt::join(path, ", ")); }

Path read_path(const Json& json, std::string_view doing) {
  if (!json.is_array()) fail("{}: expected a list of ranks, found {}", doing, json.type_name());
  Path path;
  for (const Json& rank : json) {
    if (!rank.is_number_integer()) {
      fail("{}: expected a rank as a whole number, found {}", doing, rank.type_name());
    }
    path.push_back(
        static_cast<int>(std::clamp<std::int64_t>(rank.get<std::int64_t>(), -1, kMostRanks)));
  }
  return path;
}

}  // namespace

int StaticTree::children() const {
  int most = 0;
  for (const Node& node : nodes) most = std::max(most, node.rank + 1);
  return most;
}

int StaticTree::widest_level() const {
  std::set<int> parents;
  std::vector<int> width(static_cast<std::size_t>(levels()) + 1);
  int widest = 1;  // the root
  for (const Node& node : nodes) {
    if (node.parent < 0 || !parents.insert(node.parent).second) continue;
    widest = std::max(widest, ++width[static_cast<std::size_t>(node.level)]);
  }
  return widest;
}

StaticTree StaticTree::cut(int levels, int children) const {
  StaticTree smaller;
  std::vector<int> new_index(nodes.size(), -1);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node node = nodes[i];
    if (node.parent >= 0) node.parent = new_index[static_cast<std::size_t>(node.parent)];
    const bool has_parent = nodes[i].parent < 0 || node.parent >= 0;
    if (node.level >= levels || node.rank >= children || !has_parent) continue;
    new_index[i] = static_cast<int>(smaller.nodes.size());
    smaller.nodes.push_back(node);
  }
  return smaller;
}

StaticTree parse_static_tree(const std::vector<Path>& paths, std::string_view doing) {
  if (paths.empty() || paths.size() > kMostNodes) {
    fail("{}: expected 1 to {} paths, found {}", doing, kMostNodes, paths.size());
  }
  std::vector<Path> sorted = paths;
  std::sort(sorted.begin(), sorted.end(), shorter_or_before);
  StaticTree tree;
  std::map<Path, int> index;
  for (const Path& path : sorted) {
    check_path(path, doing);
    const auto parent =
        path.size() == 1 ? index.end() : index.find(Path(path.begin(), path.end() - 1));
    if (path.size() > 1 && parent == index.end()) {
      fail("{}: expected the beginning of {} to be a path too, found none", doing, show(path));
    }
    const int node = static_cast<int>(tree.nodes.size());
    if (!index.emplace(path, node).second) fail("{}: found {} twice", doing, show(path));
    tree.nodes.push_back(
        {path.size() == 1 ? -1 : parent->second, path.back(), static_cast<int>(path.size()) - 1});
  }
  return tree;
}

StaticTree read_static_tree(const std::filesystem::path& file) {
  const std::string doing = fmt::format("read tree {}", quote(file.string()));
  const MappedFile mapped(file);
  const auto bytes = mapped.bytes();
  if (bytes.size() > kLargestFile) {
    fail("{}: expected at most {} bytes, found {}", doing, kLargestFile, bytes.size());
  }
  const Json json = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, doing);
  if (!json.is_array()) fail("{}: expected a list of paths, found {}", doing, json.type_name());
  std::vector<Path> paths;
  for (const Json& path : json) paths.push_back(read_path(path, doing));
  return parse_static_tree(paths, doing);
}

StaticTree chain_tree(int levels) {
  StaticTree tree;
  for (int level = 0; level < levels; ++level) tree.nodes.push_back({level - 1, 0, level});
  return tree;
}

std::unique_ptr<TreeGrowth> grow_static_tree(StaticTree tree, int nodes,
                                             const LevelPolicy& policy) {
  return std::make_unique<StaticTreeGrowth>(std::move(tree), nodes, policy);
}

}  // namespace talon
