#pragma once

#include <map>
#include <memory>

#include "backend/backend.h"

namespace talon {

/// Which memory of a shadow backend stands for which memory of the primary one. Views into an
/// allocation of the primary are translated to the same place of its shadow.
class ShadowMemory {
 public:
  void add(const View& primary, const View& shadow);
  void remove(const View& primary);
  /// Empty for an empty view. REQUIRES: `view` lies in an allocation that was added.
  View translate(const View& view) const;

 private:
  struct Range {
    const float* end;
    float* shadow;
  };
  std::map<const float*, Range, std::less<>> ranges_;
};

/// An allocation of both backends. Unregisters itself.
class ShadowedMemory : public DeviceMemory {
 public:
  ShadowedMemory(ShadowMemory& memory, Buffer primary, Buffer shadow);
  ~ShadowedMemory() override;

 private:
  ShadowMemory& memory_;
  Buffer primary_, shadow_;
};

/// A weight, a cache, or a layout, of both backends, described as the primary's.
struct ShadowedWeight : Weight {
  std::unique_ptr<Weight> primary, shadow;
};
struct ShadowedCache : KvStore {
  std::unique_ptr<KvStore> primary, shadow;
};
struct ShadowedLayout : PreparedLayout {
  std::unique_ptr<PreparedLayout> primary, shadow;
};

}  // namespace talon
