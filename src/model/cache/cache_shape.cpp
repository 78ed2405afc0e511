#include "model/cache/cache_shape.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "model/cache/near_pages.h"

namespace talon {
namespace {

constexpr int kUsualSlots = 16, kFewestSlots = 2;  // of states
constexpr int kNearRows = 512;                     // in flight at once of one text

/// The positions that a row of the layer sees at most; 0: all.
int reach_of(const LayerPlan& plan) {
  if (plan.window == 0 || plan.chunk == 0) return std::max(plan.window, plan.chunk);
  return std::min(plan.window, plan.chunk);
}

/// The most positions of each layer of the cache that a row of the layers that read it sees; 0:
/// all.
std::vector<int> reaches(const ModelConfig& config, std::size_t cache_layers) {
  std::vector<int> reach(cache_layers, -1);
  for (const LayerPlan& plan : config.plans) {
    if (!plan.attends) continue;
    int& known = reach[static_cast<std::size_t>(plan.cache_layer)];
    const int own = reach_of(plan);
    known = own == 0 || known == 0 ? 0 : std::max(known, own);
  }
  return reach;
}

int near_pages(const KvShape& shape) {
  if (shape.near.layers.empty()) return 0;
  const int least = NearPages::most(shape.near.reach, kNearRows);
  const double share = std::ceil(shape.near.share * shape.pages);
  return std::min(shape.pages, std::max(least, static_cast<int>(share)));
}

/// Layers out of whose reach positions fall before the context ends lie apart.
void part_near_layers(const ModelConfig& config, std::vector<KvWidth>& widths, KvShape& shape) {
  if (shape.states.layers > 0) return;
  const std::vector<int> reach = reaches(config, widths.size());
  const auto is_near = [&](int of) { return of > 0 && of < config.context; };
  if (std::ranges::none_of(reach, is_near)) return;
  NearShape& near = shape.near;
  std::vector<KvWidth> far;
  for (std::size_t i = 0; i < reach.size(); ++i) {
    near.layers.push_back(is_near(reach[i]));
    (near.layers.back() ? near.widths : far).push_back(widths[i]);
    if (near.layers.back()) near.reach = std::max(near.reach, reach[i]);
  }
  widths = std::move(far);
}

/// With f and n bytes of a page in far and near layers, and near pages for a part s of far ones, a
/// budget of B holds B / (f + s n) far pages. Texts that are short take as many of both, such that
/// fill the context a part q of near ones. Both lose the same where s = (f + q n) / (f + n).
double near_share(const ModelConfig& config, const KvShape& shape) {
  const auto far = static_cast<double>(kv_page_bytes(shape));
  const auto near = static_cast<double>(near_page_bytes(shape));
  const double whole = std::ceil(static_cast<double>(config.context) / kPageRows);
  const double part = std::min(1.0, NearPages::most(shape.near.reach, kNearRows) / whole);
  return (far + part * near) / (far + near);
}

}  // namespace

KvShape kv_shape(const ModelConfig& config, int pages, KvType type) {
  KvShape shape{0, config.kv_heads, config.head_dim, pages, type};
  std::vector<KvWidth> widths;
  for (const LayerPlan& plan : config.plans) {
    if (plan.writes_cache) widths.push_back({plan.kv_heads, plan.head_dim, plan.values()});
  }
  for (const LayerPlan& plan : config.plans) {
    if (plan.recurrent.value_heads == 0) continue;
    const int layers = shape.states.layers + 1;
    shape.states = plan.recurrent.shape();
    shape.states.layers = layers;
    shape.states.slots = kUsualSlots;
  }
  part_near_layers(config, widths, shape);
  shape.layers = static_cast<int>(widths.size());
  const KvWidth usual{shape.kv_heads, shape.head_dim, shape.head_dim};
  const bool alike = std::ranges::all_of(widths, [&](const KvWidth& w) { return w == usual; });
  if (!alike) shape.widths = std::move(widths);
  if (!shape.near.layers.empty()) shape.near.share = near_share(config, shape);
  shape.near.pages = near_pages(shape);
  return shape;
}

KvShape with_pages(KvShape shape, int pages) {
  shape.pages = pages;
  shape.near.pages = near_pages(shape);
  return shape;
}

std::size_t kv_bytes(const KvShape& shape) {
  return kv_page_bytes(shape) * static_cast<std::size_t>(shape.pages) +
         near_page_bytes(shape) * static_cast<std::size_t>(shape.near.pages);
}

KvShape within_budget(KvShape shape, std::size_t budget_bytes) {
  std::size_t states = 0;
  if (const std::size_t slot_bytes = shape.states.slot_bytes(); slot_bytes > 0) {
    // A quarter for states.
    const std::size_t slots = budget_bytes / 4 / slot_bytes;
    shape.states.slots =
        static_cast<int>(std::clamp<std::size_t>(slots, kFewestSlots, kUsualSlots));
    states = slot_bytes * static_cast<std::size_t>(shape.states.slots);
  }
  const auto bytes = [&](int pages) { return states + kv_bytes(with_pages(shape, pages)); };
  const std::size_t least = bytes(1);
  if (budget_bytes < least) {
    fail("allocate the key-value cache: expected a budget of at least one page, {} bytes, found {}",
         least, budget_bytes);
  }
  int fits = 1, too_many = kMostKvPages;
  while (too_many - fits > 1) {
    const int middle = fits + (too_many - fits) / 2;
    (bytes(middle) <= budget_bytes ? fits : too_many) = middle;
  }
  return with_pages(shape, fits);
}

}  // namespace talon
