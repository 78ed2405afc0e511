#include "bench/peer/sampler_fields.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace talon::sampler_fields_test {
namespace {

SamplerOptions unusual() {
  SamplerOptions sampler;
  sampler.temperature = 0.7;
  sampler.top_k = 5;
  sampler.min_p = 0.25;
  sampler.typical_p = 0.5;
  sampler.repetition_penalty = 1.5;
  sampler.logit_bias = {{3, -2.5F}};
  sampler.banned = {7, 9};
  return sampler;
}

TEST(SamplerFields, OfLlamaCppAreAllSettingsByItsNames) {
  SamplerOptions sampler = unusual();
  const Json fields = llama_sampler_fields(sampler, 640);
  EXPECT_EQ(fields["top_k"], 5);
  EXPECT_EQ(fields["typical_p"], 0.5);
  EXPECT_EQ(fields["repeat_penalty"], 1.5);
  EXPECT_EQ(fields["repeat_last_n"], 640) << "all tokens; builds since 0.5 refuse -1";
  EXPECT_EQ(fields["presence_penalty"], 0);
  EXPECT_EQ(fields["logit_bias"], Json::parse("[[3, -2.5], [7, false], [9, false]]"));
  EXPECT_EQ(llama_sampler_fields({}, 640)["min_p"], 0) << "its own usual value is another";
  const Json order = {"penalties", "temperature", "top_k", "top_p", "min_p", "typ_p"};
  EXPECT_EQ(fields.value("samplers", Json()), order) << "its own cuts before the temperature";
  SamplerOptions uncut;
  uncut.temperature = 0.7;
  EXPECT_FALSE(llama_sampler_fields(uncut, 640).contains("samplers"));
  sampler.temperature = 0;
  EXPECT_EQ(llama_sampler_fields(sampler, 640)["top_k"], 1);
  sampler.penalty_window = 64;
  EXPECT_EQ(llama_sampler_fields(sampler, 640)["repeat_last_n"], 64);
}

TEST(SamplerFields, OfAnEndpointAreWhatIsNotUsual) {
  SamplerOptions sampler = unusual();
  const Json fields = endpoint_sampler_fields(sampler);
  EXPECT_EQ(fields["top_k"], 5);
  EXPECT_EQ(fields["min_p"], 0.25);
  EXPECT_EQ(fields["typical_p"], 0.5);
  EXPECT_EQ(fields["repetition_penalty"], 1.5);
  EXPECT_EQ(fields["logit_bias"], Json({{"3", -2.5}, {"7", -100}, {"9", -100}}));
  EXPECT_FALSE(fields.contains("presence_penalty"));
  EXPECT_EQ(endpoint_sampler_fields({}), Json({{"temperature", 0.0}, {"top_p", 1.0}}));
  sampler.penalty_window = 64;
  EXPECT_THROW(endpoint_sampler_fields(sampler), UsageError);
}

}  // namespace
}  // namespace talon::sampler_fields_test
