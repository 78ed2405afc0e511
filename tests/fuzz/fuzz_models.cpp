#include "fuzz_models.h"

#include <fmt/format.h>

#include <cstdlib>

#include "draft/registry.h"
#include "io/test_pictures.h"
#include "maker_data.h"
#include "models.h"
#include "random_heads.h"
#include "text/grammar/grammar.h"

namespace talon::fuzz {
namespace {

using test::TestEngine;
using test::TestOptions;
using Kind = GrammarText::Kind;

const std::string kStories = "stories260k", kStoriesInt8 = "stories260k-int8",
                  kPictures = "pictures of words";

// Tiny recorded models of tests/data/golden/makers.
const std::vector<std::string> kMakers = {"qwen3_next",    // states, experts
                                          "gemma2",        // windows
                                          "gemma4_e",      // windows, layers that share a cache
                                          "qwen3_moe",     // experts
                                          "deepseek_v3"};  // latents, a prediction layer

const GrammarText kGrammars[] = {
    {Kind::choice, R"(["Once upon a time, there was a little girl named Lily.", "Once", "a dog"])"},
    {Kind::regex, "(a|the|Tom)( [a-z]+)*\\."},
    {Kind::regex, "[^x]*"},
    {Kind::gbnf, "root ::= (\"ab\" | \"ba\" | \" \")+ \"c\""},
    {Kind::json_schema, R"({"type": "object", "properties": {"n": {"type": "integer"}},)"
                        R"( "required": ["n"], "additionalProperties": false})"}};

/// The tokens of llama2.c, of which a model of fewer rows has the first: a token for each byte of a
/// text.
class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(Tokenizer inner) : Tokenizer(std::move(inner)) {}
  std::vector<TokenId> encode(std::string_view text, EncodeOptions) const override {
    constexpr TokenId kFirstByte = 3;
    std::vector<TokenId> tokens;
    for (const char byte : text) tokens.push_back(kFirstByte + static_cast<unsigned char>(byte));
    return tokens;
  }
};

std::unique_ptr<Tokenizer> tokenizer_for(int vocabulary) {
  Tokenizer whole = Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin");
  if (whole.vocabulary_size() <= vocabulary) return std::make_unique<Tokenizer>(std::move(whole));
  return std::make_unique<ByteTokenizer>(std::move(whole));
}

/// The tiny model of tests/data/golden/images that is asked by words; its pictures have 144 cells,
/// so that they take pages.
std::filesystem::path unpack_pictures() {
  const auto folder = test::unpack_picture("engine_fuzz", "words/model.safetensors").parent_path();
  std::ifstream usual(folder / "config.json");
  Json config = Json::parse(usual);
  usual.close();
  config["grid"] = {12, 12};
  std::ofstream(folder / "config.json") << config;
  return folder;
}

/// A drafter, and the head of write_heads() that it takes.
struct RandomHead {
  const char* drafter;
  const char* head;
};
constexpr RandomHead kRandomHeads[] = {
    {"eagle", "eagle1"},  {"eagle2", "eagle1"}, {"eagle3", "eagle3"},
    {"medusa", "medusa"}, {"peagle", "peagle"}, {"dflash", "dflash"},
    {"dspark", "dspark"}, {"dspark", "gated"},  {"dspark", "rnn"}};

/// One of each kind, of DSpark's one of each bias.
void write_heads(const std::filesystem::path& folder, const ModelConfig& target) {
  test::write_random_heads(folder, target);
  for (const MarkovKind markov : {MarkovKind::gated, MarkovKind::rnn})
    test::write_random_dspark(folder / name_of(markov), target, markov);
}

std::vector<std::string> headless_drafters() {
  return {"none",
          "ngram",
          "suffix:history=300",
          "ngram+suffix",
          "grid",
          "jacobi",
          "jacobi:window=8,width=3,depth=2",
          "lookahead",
          "lookahead:window=3,ngram=3+ngram",
          "mtp",
          "mtp+jacobi",
          "draft:model=self,topk=1,levels=3",
          "draft:model=self,topk=1,levels=3,draw=on",
          "draft:model=self,topk=2,levels=2,nodes=5"};
}

/// With heads that were trained for the stories model.
std::vector<std::string> trained_drafters() {
  const std::string heads = TALON_TEST_DATA "/golden/";
  const std::string eagle1 = ":head=" + heads + "stories260k/eagle1_head";
  const std::string eagle3 = ":head=" + heads + "stories260k/eagle3_head";
  std::vector<std::string> texts = {
      "eagle" + eagle1,  "eagle" + eagle1 + ",topk=1,levels=4,draw=on",
      "eagle2" + eagle1, "eagle2" + eagle1 + "+ngram",
      "eagle3" + eagle3, "eagle3" + eagle3 + "+suffix:history=2000"};
  for (const char* kind : {"dflash", "dspark", "peagle"}) {
    texts.push_back(fmt::format("{0}:head={1}blocks/{0}/head", kind, heads));
  }
  return texts;
}

std::vector<std::string> random_drafters(const std::filesystem::path& heads) {
  std::vector<std::string> texts;
  for (const auto& [drafter, head] : kRandomHeads) {
    texts.push_back(std::string(drafter) + ":head=" + (heads / head).string());
  }
  texts.push_back(texts.front() + ",topk=1,levels=3,draw=on");
  texts.push_back("jacobi+" + texts[1]);
  texts.push_back(texts[2] + "+suffix:history=2000");
  texts.push_back(texts[3] + "+ngram+lookahead");
  texts.push_back("ngram+" + texts[std::size(kRandomHeads) - 1]);
  return texts;
}

/// The same without the noise of draws; empty where the drafter does not ask.
std::string uncoupled(const std::string& drafter) {
  if (split_drafters(drafter).size() > 1) return {};
  const std::string name = drafter.substr(0, drafter.find(':'));
  for (const DrafterEntry& entry : talon::drafters()) {
    if (entry.name != name) continue;
    for (const Option& option : entry.options) {
      if (option.name == "coupled") {
        return drafter + (name == drafter ? ":" : ",") + "coupled=off";
      }
    }
  }
  return {};
}

}  // namespace

FuzzModel::FuzzModel(std::string name, const std::filesystem::path& files, WeightLayout weights,
                     const std::filesystem::path& folder)
    : name_(std::move(name)),
      model_(files, test::cpu_backend(1), 0, weights),
      tokenizer_(tokenizer_for(model_.vocabulary())),
      plain_(model_, make_drafter("none", {}), plain_options()) {
  if (!model_.model.config.image) {
    const GrammarCompiler compiler(*tokenizer_, model_.vocabulary());
    for (const GrammarText& text : kGrammars) constraints_.push_back(compiler.compile(text));
  }
  for (const std::string& policy : test::all_policies()) {
    if (takes("none", policy)) parts_.policies.push_back(policy);
  }
  find_drafters(folder / name_);
}

TestOptions FuzzModel::plain_options() const {
  TestOptions options;
  options.policy = "fixed";
  options.tokenizer = tokenizer_.get();
  return options;
}

Askable FuzzModel::askable() const {
  const ModelConfig& config = model_.model.config;
  return {config.vocabulary, config.context, constraints_, config.image, config.input_count()};
}

/// Features that it has not, or a head of another width, are refused.
bool FuzzModel::takes(const std::string& drafter, const std::string& policy) {
  TestOptions options;
  options.policy = policy;
  try {
    const TestEngine engine(model_, make_drafter(drafter, {.target = &model_.model}), options, 1);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void FuzzModel::find_drafters(const std::filesystem::path& heads) {
  std::vector<std::string> texts = headless_drafters();
  if (!model_.model.config.image) {  // heads are made for models of texts
    write_heads(heads, model_.model.config);
    for (const auto& more : {trained_drafters(), random_drafters(heads)}) {
      texts.insert(texts.end(), more.begin(), more.end());
    }
  }
  parts_.drafters = {"random", "random"};
  for (const std::string& text : texts) {
    if (!takes(text, "fixed")) continue;
    parts_.drafters.push_back(text);
    if (std::string without = uncoupled(text); !without.empty()) {
      parts_.drafters.push_back(std::move(without));
    }
  }
}

FullAnswer FuzzModel::answer(Request request) {
  request.reuse_prefix = false;
  FullAnswer answer;
  plain_.submit(request);
  while (!plain_.engine.idle()) {
    for (const Progress& progress : plain_.engine.step()) note(plain_, progress, answer);
  }
  return answer;
}

/// GoogleTest's folder, into which models are unpacked, goes with this one.
FuzzModels::FuzzModels() { ::setenv("TEST_TMPDIR", folder_.path().c_str(), 1); }

FuzzModel& FuzzModels::any(Chooser& choose) {
  if (choose.chance(0.15)) return named(kPictures);
  if (choose.chance(0.4)) return named(choose.one_of(kMakers));
  return named(choose.chance(0.25) ? kStories : kStoriesInt8);  // which is faster
}

FuzzModel& FuzzModels::named(const std::string& name) {
  std::unique_ptr<FuzzModel>& model = models_[name];
  if (model) return *model;
  const bool is_story = name == kStories || name == kStoriesInt8;
  const std::filesystem::path files = is_story            ? test::kStories260k
                                      : name == kPictures ? unpack_pictures()
                                                          : unpack_maker(name).folder;
  const WeightLayout weights = name == kStoriesInt8 ? WeightLayout::int8 : WeightLayout::as_stored;
  model = std::make_unique<FuzzModel>(name, files, weights, folder_.path());
  return *model;
}

}  // namespace talon::fuzz
