#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.h"
#include "draft/drafter.h"
#include "draft/shared_weights.h"
#include "model/model.h"

namespace talon {

/// The path of a draft head of this kind (a name of `drafters()` that needs a head) for the target;
/// empty: there is none.
using HeadFinder = std::function<std::string(std::string_view kind)>;

/// What a drafter may need to be made. Borrowed.
struct DrafterContext {
  const Model* target = nullptr;
  std::string head = {};  // the draft head used when the options name none; empty: `heads` knows
  /// Of all sequences together, for drafters with a cache; 0: the context of the target.
  std::size_t cache_positions = 0;
  int max_nodes = 0;                // of a tree, drafted, at most; 0: not known
  HeadFinder heads = {};            // may be empty
  SharedWeights* shared = nullptr;  // with other drafters of the target; null: nothing is

  /// What a drafter uses whose options name no head; empty: there is none.
  std::string find_head(std::string_view kind) const;
  /// Weights by what they are loaded from. Shared, since any of the drafters may be the last.
  template <typename Weights, typename Load>
  std::shared_ptr<const Weights> weights(const std::string& key, const Load& load) const {
    return shared ? shared->get<Weights>(key, load) : std::make_shared<const Weights>(load());
  }
};

/// A row of the explicit table of drafters: adding one is one .cpp file, which gives the row, and
/// its name in the table. `help`, `bench` and the conformance tests iterate over the table.
struct DrafterEntry {
  std::string_view name;
  std::string_view summary;  // one line, with the paper
  std::vector<Option> options;
  std::unique_ptr<Drafter> (*make)(Options& options, const DrafterContext& context);
  bool needs_head = false;       // cannot be made without a draft head for the target
  bool passes_by_level = false;  // its network runs once for each level of a tree
};
std::span<const DrafterEntry> drafters();

/// `a:key=value+b` in its parts. A + that no drafter's name follows belongs to a value, unless the
/// part before it has no options.
std::vector<std::string_view> split_drafters(std::string_view text);

/// Makes the drafter that `text` (`ngram:nodes=8`) names, or several joined with +
/// (`eagle3+ngram:nodes=8`) as one (merged.h). Throws UsageError listing the names that exist.
std::unique_ptr<Drafter> make_drafter(std::string_view text, const DrafterContext& context);

}  // namespace talon
