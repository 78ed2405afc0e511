#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "runtime/decode_settings.h"

namespace talon {

/// The methods of one engine by their texts (runtime/method.h), for Request::method. Each is made
/// once, and a drafter that several of them name is loaded and measured once. Making one may take
/// seconds; nobody is served meanwhile. Engine, model and cache are borrowed.
class NamedMethods {
 public:
  /// Makes the settings' own method: the first that is added to the engine. `cache`: the engine's;
  /// a head's own cache holds as many positions. Throws as get().
  NamedMethods(Engine& engine, const Model& model, KvCache& cache, DecodeSettings settings);

  /// What a text does not name is as in the settings; an empty one names all of theirs. Throws
  /// UsageError for a drafter, policy or rule that does not exist or options that it does not have,
  /// Error for a file that cannot be used.
  MethodId get(std::string_view text = {});

  /// Makes room: lets go of the method of a text, and of its drafter if no other has it. False, and
  /// it stays, if a request has it or had it in the last step, or it is the settings' own. True if
  /// there is none.
  bool forget(std::string_view text);

  /// From then on methods are made with the heads that `heads` finds, and what was measured of
  /// drafters of the same texts stands. Requests keep the methods that they have, which are let go
  /// of when none has them. Throws as get(); then nothing has changed.
  void use_heads(HeadFinder heads);

  /// What drafts by the settings' own method: their drafter, or what auto stands for.
  const std::string& drafter() const { return settings_.drafter; }

 private:
  struct LoadedDrafter {
    std::shared_ptr<Drafter> drafter;
    CostProfile costs;
  };
  MethodId make(const DecodeSettings& settings);
  LoadedDrafter& load(const std::string& drafter);
  void drop_retired();

  Engine& engine_;
  const Model& model_;
  KvCache& cache_;
  DecodeSettings settings_;
  std::map<std::string, LoadedDrafter> drafters_;
  std::map<std::string, MethodId, std::less<>> methods_;
  std::map<std::string, CostProfile> costs_;  // of drafters that others took the place of
  std::vector<MethodId> retired_;             // that no text names any more
};

}  // namespace talon
