#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "runtime/decode_settings.h"
#include "verify/relaxed/neighbour_table.h"

namespace talon {

/// The methods of one engine by their texts (runtime/method.h), for Request::method. Each is made
/// once, a drafter, policy or rule that several of them name is made once, a drafter measured once,
/// and weights that several drafters have are loaded once. Making one may take seconds; nobody is
/// served meanwhile. Engine, model and cache are borrowed.
class NamedMethods {
 public:
  /// Makes the settings' own method: the first that is added to the engine. `cache`: the engine's;
  /// a head's own cache holds as many positions. Throws as get().
  NamedMethods(Engine& engine, const Model& model, KvCache& cache, DecodeSettings settings);

  /// What a text does not name is as in the settings; an empty one names all of theirs. Throws
  /// UsageError for a drafter, policy or rule that does not exist or options that it does not have,
  /// Error for a file that cannot be used; then nothing that was loaded for it stays.
  MethodId get(std::string_view text = {});

  /// Makes room: lets go of the method of a text, and of its parts that no other has. False, and
  /// it stays, if a request has it or had it in the last step, or it is the settings' own. True if
  /// there is none.
  bool forget(std::string_view text);
  /// Whether get() has made the method of that text, and it has not been forgotten.
  bool knows(std::string_view text) const;

  /// From then on methods are made with the heads that `heads` finds, and what was measured of
  /// drafters of the same texts stands. Requests keep the methods that they have, which are let go
  /// of when none has them. Throws as get(); then nothing has changed.
  void use_heads(HeadFinder heads);

  /// What drafts by the settings' own method: their drafter, or what auto stands for.
  const std::string& drafter() const { return settings_.drafter; }

 private:
  /// What methods are made of, by its texts.
  struct Parts {
    SharedWeights weights;
    std::map<std::string, std::shared_ptr<Drafter>> drafters;  // methods have them, too
    std::map<std::string, std::shared_ptr<const TreePolicy>> policies;
    std::map<std::string, std::shared_ptr<const Verifier>> rules;
  };

  MethodId make(const DecodeSettings& settings);
  const std::shared_ptr<Drafter>& load(const std::string& drafter);
  const CostProfile& costs_of(const std::string& drafter);
  std::string measured_as(const std::string& drafter) const;
  void drop_retired();
  /// Lets go of parts that no method has.
  void drop_unused();

  Engine& engine_;
  const Model& model_;
  KvCache& cache_;
  DecodeSettings settings_;
  Parts parts_;
  NeighbourTables tables_;  // of the rules
  std::map<std::string, MethodId, std::less<>> methods_;
  std::map<std::string, CostProfile> costs_;  // by what is measured
  std::vector<MethodId> retired_;             // that no text names any more
};

/// Costs that were measured of `measured`, which has the weights of `drafter`: each network has the
/// source that it has in `drafter`.
CostProfile costs_in(std::string_view drafter, std::string_view measured, CostProfile costs);

/// The methods that requests have asked for: those that were asked for last stay, and those that
/// requests have. The methods, which are asked here alone, are borrowed.
class RecentMethods {
 public:
  static constexpr std::size_t kMost = 32;  // that stay although no request has them

  explicit RecentMethods(NamedMethods& methods) : methods_(methods) {}

  /// As NamedMethods::get(). Beyond kMost it then lets go of others, the one that was asked for the
  /// longest ago first.
  MethodId get(std::string_view text);
  /// Whether there are more than kMost, since requests have all but the newest.
  bool are_too_many() const { return texts_.size() > kMost; }
  /// Lets go of the one that was asked for last, unless a request has it. REQUIRES: there is one.
  void forget_newest();

 private:
  NamedMethods& methods_;
  std::vector<std::string> texts_;  // the one that was asked for last is the last
};

}  // namespace talon
