#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu.h"
#include "deviation.h"
#include "subjects.h"

namespace talon::cpu_golden_test {
namespace {

struct Setting {
  Activations activations;
  KvType kv;
};

std::string name_of(const Setting& s) {
  return fmt::format("activations{}_{}", name_of(s.activations), name_of(s.kv));
}
void PrintTo(const Setting& setting, std::ostream* out) { *out << name_of(setting); }

ModelRun load(const Subject& subject, const Setting& setting) {
  auto backend = make_cpu_backend({.threads = 2, .activations = setting.activations});
  return {subject.path(), std::move(backend), setting.kv, 1024};
}

/// 8-bit activations carry the noise that llama.cpp's do; any change in a last bit draws it anew,
/// so its size is known to about a tenth. 16-bit ones have next to none.
double part_of_the_peer(Activations activations) {
  constexpr double kParts[] = {1.1, 0.75, 0.05};
  return kParts[static_cast<int>(activations)];
}

/// The bounds of an engine that quantises activations.
void expect_quantised(const std::string& what, const Deviation& d) {
  print(what, d);
  EXPECT_LE(std::fabs(d.nll_mean_difference), 0.02) << what;
  EXPECT_LE(d.largest_missed_margin, 1.0) << what;
  EXPECT_GE(d.argmax_agreement, 0.94) << what;
}

class CpuGolden : public testing::TestWithParam<Setting> {
 protected:
  void check(const Subject& subject, std::size_t cases) {
    if (subject.missing()) GTEST_SKIP() << subject.path();
    const Golden golden = read_golden(subject.golden);
    ModelRun run = load(subject, GetParam());
    const std::string what = subject.golden + " " + name_of(GetParam());
    expect_quantised(what + " cases", check_cases(run, std::span(golden.cases).first(cases)));
    const int rows = static_cast<int>(golden.text.ids.size());
    const Deviation text = check_text(run, golden.text, rows);
    expect_quantised(what + " text", text);
    for (const GoldenPeer& peer : golden.peers) {
      const Deviation theirs = peer_deviation(peer, golden.text, rows);
      print("  llama.cpp " + peer.configuration + " text", theirs);
      EXPECT_LE(text.nll_mean_abs, part_of_the_peer(GetParam().activations) * theirs.nll_mean_abs)
          << what;
    }
  }
};

TEST_P(CpuGolden, SmolLm2IsNoFurtherFromFloat32ThanLlamaCpp) { check(kSmolLm2, 9); }

TEST_P(CpuGolden, TinyLlamaIsNoFurtherFromFloat32ThanLlamaCpp) { check(kTinyLlama, 3); }

std::string setting_name(const testing::TestParamInfo<Setting>& tested) {
  return name_of(tested.param);
}
// Each kind of activations and each type of the cache once; the first is what Talon uses by itself.
INSTANTIATE_TEST_SUITE_P(Settings, CpuGolden,
                         testing::Values(Setting{Activations::mixed, KvType::bf16},
                                         Setting{Activations::bits8, KvType::f32},
                                         Setting{Activations::bits16, KvType::f16}),
                         setting_name);

TEST(CpuGoldenSmall, Stories15mIsWithinTheNoiseOfItsCache) {
  if (kStories15m.missing()) GTEST_SKIP() << kStories15m.path();
  const Golden golden = read_golden(kStories15m.golden);
  ModelRun run = load(kStories15m, {Activations::bits8, KvType::f16});
  const Deviation cases = check_cases(run, golden.cases);
  print("stories15m cases", cases);
  EXPECT_LE(cases.last_logits_max, 0.02);
  EXPECT_EQ(cases.argmax_agreement, 1);
  const Deviation text = check_text(run, golden.text, 256);
  print("stories15m text", text);
  EXPECT_LE(text.nll_max, 0.02);
}

}  // namespace
}  // namespace talon::cpu_golden_test
