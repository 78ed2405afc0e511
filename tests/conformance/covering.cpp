#include "covering.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "core/error.h"

namespace talon::test {
namespace {

using Row = std::vector<std::size_t>;

/// Some axes, and a mark for each combination of their values that a row already takes.
struct Group {
  std::vector<std::size_t> axes;
  std::vector<bool> covered;
};

class Covering {
 public:
  Covering(const std::vector<std::size_t>& sizes, std::size_t strength) : sizes_(sizes) {
    expects(strength >= 1 && strength <= sizes.size(), "a strength that the axes allow");
    std::vector<std::size_t> axes;
    add_groups(axes, 0, strength);
  }

  std::set<Row> rows() {
    std::set<Row> result;
    for (Group& group : groups_) {
      for (std::size_t cell = 0; cell < group.covered.size(); ++cell) {
        if (!group.covered[cell]) result.insert(row_with(group, cell));
      }
    }
    return result;
  }

 private:
  static constexpr std::size_t kOpen = ~std::size_t{0};  // an axis without a value

  void add_groups(std::vector<std::size_t>& axes, std::size_t next, std::size_t strength) {
    if (axes.size() == strength) {
      std::size_t cells = 1;
      for (const std::size_t axis : axes) cells *= sizes_[axis];
      groups_.push_back({axes, std::vector<bool>(cells)});
      return;
    }
    for (std::size_t axis = next; axis < sizes_.size(); ++axis) {
      axes.push_back(axis);
      add_groups(axes, axis + 1, strength);
      axes.pop_back();
    }
  }

  /// The combination of a group that `row` takes, nothing while one of its axes is open.
  std::optional<std::size_t> cell_of(const Group& group, const Row& row) const {
    std::size_t cell = 0;
    for (const std::size_t axis : group.axes) {
      if (row[axis] == kOpen) return std::nullopt;
      cell = cell * sizes_[axis] + row[axis];
    }
    return cell;
  }

  std::size_t newly_covered(const Row& row, std::size_t axis) const {
    std::size_t count = 0;
    for (const Group& group : groups_) {
      if (std::find(group.axes.begin(), group.axes.end(), axis) == group.axes.end()) continue;
      const auto cell = cell_of(group, row);
      count += cell && !group.covered[*cell];
    }
    return count;
  }

  /// The combination, and on every other axis in turn the value that covers most; among equals a
  /// random one, so that values are used about equally often.
  Row row_with(const Group& group, std::size_t cell) {
    Row row(sizes_.size(), kOpen);
    for (std::size_t i = group.axes.size(); i-- > 0; cell /= sizes_[group.axes[i]]) {
      row[group.axes[i]] = cell % sizes_[group.axes[i]];
    }
    std::vector<std::size_t> order(sizes_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::size_t axis : order) {
      if (row[axis] == kOpen) row[axis] = best_value(row, axis);
    }
    for (Group& each : groups_) each.covered[*cell_of(each, row)] = true;
    return row;
  }

  std::size_t best_value(Row row, std::size_t axis) {
    const std::size_t first = random_() % sizes_[axis];
    std::size_t best = first, most = 0;
    for (std::size_t i = 0; i < sizes_[axis]; ++i) {
      row[axis] = (first + i) % sizes_[axis];
      const std::size_t count = newly_covered(row, axis);
      if (count > most) {
        most = count;
        best = row[axis];
      }
    }
    return best;
  }

  const std::vector<std::size_t>& sizes_;
  std::vector<Group> groups_;
  std::mt19937 random_{20240607};
};

}  // namespace

std::vector<std::vector<std::size_t>> covering_rows(const std::vector<std::size_t>& sizes,
                                                    std::size_t strength) {
  const std::set<Row> rows = Covering(sizes, strength).rows();
  return {rows.begin(), rows.end()};
}

}  // namespace talon::test
