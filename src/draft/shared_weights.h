#pragma once

#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>

namespace talon {

/// The weights that drafters of one target have, by what they were loaded from: what several name
/// is loaded once, and goes with the last drafter that has it. Not for several threads at once.
class SharedWeights {
 public:
  /// What `load` gives, or what a drafter has that asked for the same.
  template <typename Weights, typename Load>
  std::shared_ptr<const Weights> get(const std::string& key, const Load& load) {
    std::weak_ptr<const void>& kept = kept_[{typeid(Weights), key}];
    if (const auto known = kept.lock()) return std::static_pointer_cast<const Weights>(known);
    auto loaded = std::make_shared<const Weights>(load());
    kept = loaded;
    return loaded;
  }

 private:
  std::map<std::pair<std::type_index, std::string>, std::weak_ptr<const void>> kept_;
};

}  // namespace talon
