#include "backend/wrap/shadow_memory.h"

#include <utility>

#include "core/error.h"

namespace talon {

void ShadowMemory::add(const View& primary, const View& shadow) {
  const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(primary.rows) * primary.stride;
  ranges_[primary.data] = {primary.data + size, shadow.data};
}

void ShadowMemory::remove(const View& primary) { ranges_.erase(primary.data); }

View ShadowMemory::translate(const View& view) const {
  if (!view) return {};
  auto range = ranges_.upper_bound(view.data);
  expects(range != ranges_.begin(), "a view lies in an allocation of its backend");
  --range;
  expects(view.data < range->second.end, "a view lies in an allocation of its backend");
  return {range->second.shadow + (view.data - range->first), view.rows, view.cols, view.stride};
}

ShadowedMemory::ShadowedMemory(ShadowMemory& memory, Buffer primary, Buffer shadow)
    : memory_(memory), primary_(std::move(primary)), shadow_(std::move(shadow)) {
  memory_.add(primary_.view(), shadow_.view());
}

ShadowedMemory::~ShadowedMemory() { memory_.remove(primary_.view()); }

}  // namespace talon
