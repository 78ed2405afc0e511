#include <gtest/gtest.h>

#include <fstream>

#include "draw/picture_facts.h"
#include "draw/picture_prompt.h"
#include "io/codec/base64.h"
#include "picture_server.h"
#include "runtime/cache_budget.h"

// POST /v1/images/generations, with the tiny models of tests/data/golden/images.
namespace talon::test::pictures_test {
namespace {

PictureServer& server() {
  static PictureServer server(words_model(3, 5));
  return server;
}

/// Drawn in process without drafts.
class PlainDrawing {
 public:
  explicit PlainDrawing(const PictureModel& from)
      : loaded_(from.open()), decoder_(open_picture_decoder(loaded_.model, from.vq)) {}

  const Model& model() const { return loaded_.model; }
  std::vector<std::uint8_t> pixels(const PicturePrompt& prompt, std::uint64_t seed,
                                   float guidance) const {
    const auto cache = open_cache(loaded_.model, {.bytes = std::size_t{4} << 20});
    Answerer answerer(loaded_.model, *cache, nullptr, {.drafter = "none"});
    Request request;
    ask_for(loaded_.model, prompt, guidance, request);
    request.seed = seed;
    request.sampler.temperature = 1;
    return decoder_.decode(answerer.decode(request).tokens).rgb;
  }

 private:
  LoadedModel loaded_;
  VqDecoder decoder_;
};

std::vector<std::uint8_t> plain(const std::string& prompt, std::uint64_t seed, float guidance) {
  static const PlainDrawing drawing(words_model(3, 5));
  return drawing.pixels(text_prompt(drawing.model(), nullptr, prompt), seed, guidance);
}

std::string base64_of(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  return to_base64(mapped.bytes());
}

TEST(ServedPictures, AreThoseOfPlainDrawing) {
  Json body = {{"prompt", "red cat flat"}, {"n", 3}, {"seed", 5}, {"size", "10x6"}};
  body["moderation"] = "low";  // which OpenAI's clients may send
  const Json answer = server().draw(body).json();
  ASSERT_EQ(answer["data"].size(), 3u) << answer;
  int forwards = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& picture = answer["data"][i];
    EXPECT_EQ(pixels_of(picture["b64_json"]), plain("red cat flat", 5 + i, 2)) << i;
    EXPECT_EQ(picture["talon"]["seed"], 5 + i);
    EXPECT_EQ(picture["talon"]["depths"].size(), 15u);
    forwards += picture["talon"]["forwards"].get<int>();
  }
  EXPECT_EQ(answer["size"], "10x6");
  EXPECT_EQ(answer["background"], "opaque");
  EXPECT_EQ(answer["usage"]["output_tokens"], 45);
  EXPECT_EQ(answer["usage"]["input_tokens"], 6);
  EXPECT_EQ(answer["usage"]["input_tokens_details"]["text_tokens"], 6);
  EXPECT_EQ(answer["usage"]["forwards"], forwards);
  EXPECT_LE(forwards, 45);
  EXPECT_EQ(answer["talon"]["drafter"], "jacobi");
}

PngTexts texts_in(const Json& picture) {
  const auto bytes = from_base64(picture["b64_json"].get<std::string>());
  if (!bytes) return {};
  const auto file = std::filesystem::path(testing::TempDir()) / "talon_served_picture.png";
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes->data()), std::ssize(*bytes));
  return read_png_texts(file);
}

/// What `talon image --batch` asks of the file of a line's picture.
TEST(ServedPictures, SayWhatTheyCanBeMadeAgainOf) {
  const PictureModel from = words_model(3, 5);
  const LoadedModel loaded = from.open();
  PictureFacts facts;
  facts.prompt = "red cat flat";
  facts.seed = 6;
  facts.guidance = 2;
  facts.sampler.temperature = 1;
  facts.model = from.model.filename().string();
  facts.computed_by = computed_by(loaded, open_picture_decoder(loaded.model, from.vq),
                                  BackendKind::cpu, cache_type(loaded.model, {}));
  const Json asked = {{"prompt", "red cat flat"}, {"n", 2}, {"seed", 5}, {"guidance", 2}};
  const Json answer = server().draw(asked).json();
  ASSERT_EQ(answer["data"].size(), 2u) << answer;
  const PngTexts texts = texts_in(answer["data"][1]);
  EXPECT_EQ(difference(texts, facts), "");
  facts.computed_by[0].second = "another";
  EXPECT_EQ(difference(texts, facts).substr(0, 18), "model_fingerprint ");
}

TEST(ServedPictures, HearOfGuidanceAndMethods) {
  const Json guided = server()
                          .draw({{"prompt", "moon round"},
                                 {"seed", 9},
                                 {"guidance", 6},
                                 {"return_token_ids", true},
                                 {"talon", {{"drafter", "grid"}, {"policy", "fixed"}}}})
                          .json();
  EXPECT_EQ(pixels_of(guided["data"][0]["b64_json"]), plain("moon round", 9, 6));
  EXPECT_EQ(guided["data"][0]["token_ids"].size(), 15u);
  EXPECT_NE(plain("moon round", 9, 6), plain("moon round", 9, 1));
  const Json first =
      server()
          .draw({{"prompt", "moon round"}, {"seed", 9}, {"guidance", 20}, {"guidance_tokens", 1}})
          .json();
  EXPECT_NE(pixels_of(first["data"][0]["b64_json"]), plain("moon round", 9, 20));
  const Json undrafted =
      server().draw({{"prompt", "moon round"}, {"talon", {{"drafter", "none"}}}}).json();
  EXPECT_EQ(undrafted["usage"]["forwards"], 15);
}

/// Strangers name no files: the codes are those of the served tokenizer.
TEST(ServedPictures, OfARuleThatComparesCodesAreThoseOfTheTokenizer) {
  const std::string rule = "lantern:k=30,lambda=50";
  const PictureModel from = words_model(3, 5);
  const LoadedModel loaded = from.open();
  const auto cache = open_cache(loaded.model, {.bytes = std::size_t{4} << 20});
  Answerer answerer(
      loaded.model, *cache, nullptr,
      {.drafter = "jacobi", .policy = "fixed", .verify = rule + ",codebook=" + from.vq.string()});
  double distortion = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Request request;
    ask_for(loaded.model, text_prompt(loaded.model, nullptr, "red cat flat"), 2, request);
    request.seed = seed;
    request.sampler.temperature = 1;
    const auto wanted = answerer.decode(request);
    distortion += wanted.statistics.distortion;
    const Json drawn = server()
                           .draw({{"prompt", "red cat flat"},
                                  {"seed", seed},
                                  {"guidance", 2},
                                  {"return_token_ids", true},
                                  {"talon", {{"policy", "fixed"}, {"verify", rule}}}})
                           .json();
    EXPECT_EQ(drawn["data"][0]["token_ids"], Json(wanted.tokens)) << seed;
  }
  EXPECT_GT(distortion, 0);
}

TEST(ServedPictures, OtherWishesAreRefusedByTheirField) {
  const auto field = [](Json more) {
    Json body = {{"prompt", "red cat flat"}};
    body.update(more);
    const Reply reply = server().draw(body);
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json()["error"]["param"];
  };
  EXPECT_EQ(field({{"size", "1024x1024"}}), "size");
  EXPECT_EQ(field({{"response_format", "url"}}), "response_format");
  EXPECT_EQ(field({{"output_format", "webp"}}), "output_format");
  EXPECT_EQ(field({{"background", "transparent"}}), "background");
  EXPECT_EQ(field({{"moderation", "none"}}), "moderation");
  EXPECT_EQ(field({{"stream", "yes"}}), "stream");
  EXPECT_EQ(field({{"partial_images", 1}}), "partial_images");
  EXPECT_EQ(field({{"stream", true}, {"partial_images", 4}}), "partial_images");
  EXPECT_EQ(field({{"guidance", -1}}), "guidance");
  EXPECT_EQ(field({{"guidance_tokens", -1}}), "guidance_tokens");
  EXPECT_EQ(field({{"n", 0}}), "n");
  EXPECT_EQ(field({{"prompt", "red caat flat"}}), "prompt");
  EXPECT_EQ(field({{"stream", true}, {"prompt", "red caat flat"}}), "prompt");
  EXPECT_EQ(field({{"class", 3}}), "prompt");
  EXPECT_EQ(field({{"prompt", nullptr}, {"class", 3}}), "class");
  EXPECT_EQ(field({{"prompt", nullptr}, {"class", "cat"}}), "class");
  EXPECT_EQ(field({{"caption_features", "AAAA"}}), "caption_features");
  EXPECT_EQ(field({{"repetition_penalty", 1.5}}), "repetition_penalty");
  EXPECT_EQ(field({{"talon", {{"drafter", "nobody"}}}}), "talon.drafter");
}

/// A model that is asked by words of its own has no tokenizer to read one with.
TEST(ServedPictures, HaveNoPrediction) {
  const Json prediction = {{"type", "content"}, {"content", "a cat"}};
  const Reply reply = server().draw({{"prompt", "red cat flat"}, {"prediction", prediction}});
  EXPECT_EQ(reply.status, 200) << reply.body;
}

TEST(ServedPictures, ModelsAnswerOnTheirPathsOnly) {
  const Json chat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  for (const char* path : {"/v1/chat/completions", "/v1/responses", "/tokenize"}) {
    const Reply reply = server().post(path, chat);
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_NE(reply.body.find("which draws pictures: use /v1/images/generations"),
              std::string::npos)
        << reply.body;
  }
  EXPECT_EQ(server().get("/props").status, 200);
  TestServer text;
  const Reply reply = text.post("/v1/images/generations", {{"prompt", "red cat flat"}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("expected one that draws pictures, found tiny"), std::string::npos)
      << reply.body;
}

TEST(ServedPictures, WithoutANameTheFirstModelOfThePathsKindAnswers) {
  std::vector<ServedModel> models;
  models.push_back(icons_served(words_model(3, 5)));
  models.push_back(tiny_served({}));
  ServeOptions options;
  options.http.port = 0;
  const Server both(options, std::move(models));
  Client client(both.port());
  const Json chat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 2}};
  EXPECT_EQ(client.post("/v1/chat/completions", chat).json()["model"], "tiny");
  EXPECT_EQ(client.post("/v1/images/generations", {{"prompt", "red cat flat"}}).status, 200);
}

TEST(ServedPictures, ModelsSayHowTheyAreAsked) {
  const Json listed = server().get("/v1/models").json()["data"][0];
  EXPECT_EQ(listed["id"], "icons");
  const Json pictures = listed["talon"]["pictures"];
  EXPECT_EQ(pictures["width"], 10);
  EXPECT_EQ(pictures["rows"], 3);
  EXPECT_EQ(pictures["guidance"], 2);
  EXPECT_EQ(pictures["prompt"], "words");
  EXPECT_EQ(pictures["styles"], Json({"flat", "round", "line"}));
  EXPECT_FALSE(pictures.contains("words")) << "many";
  const Json whole = server().get("/v1/models/icons").json()["talon"]["pictures"];
  EXPECT_EQ(whole["words"][0], "cat");
  TestServer text;
  EXPECT_FALSE(text.get("/v1/models").json()["data"][0].contains("talon"));
}

TEST(ServedPictures, OfAClassAreAskedByNumberOrName) {
  const PictureModel from = class_model();
  const PictureServer classes(from);
  const PlainDrawing drawing(from);
  const auto wanted = drawing.pixels(class_prompt(drawing.model(), 2), 4, 4);  // the usual guidance
  for (const Json& asked : {Json({{"class", 2}}), Json({{"class", "White Shark"}}),
                            Json({{"prompt", "white shark"}}), Json({{"prompt", "2"}})}) {
    Json body = asked;
    body["seed"] = 4;
    const Reply reply = classes.draw(body);
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(pixels_of(reply.json()["data"][0]["b64_json"]), wanted) << asked;
  }
  EXPECT_NE(wanted, drawing.pixels(class_prompt(drawing.model(), 2), 4, 2));
  const auto refusal = [&](const Json& body) { return classes.draw(body).json()["error"]; };
  const Json unknown = refusal({{"class", "golden fish"}});
  EXPECT_EQ(unknown["param"], "class");
  EXPECT_NE(unknown["message"].get<std::string>().find("such as goldfish"), std::string::npos);
  EXPECT_EQ(refusal({{"class", 5}})["param"], "class");
  EXPECT_EQ(refusal({{"class", 2.5}})["param"], "class");
  const Json whole = classes.get("/v1/models/icons").json()["talon"]["pictures"];
  EXPECT_EQ(whole["classes"], 5);
  EXPECT_EQ(whole["class_names"][1], "goldfish");
}

TEST(ServedPictures, NeedAContextThatHoldsThem) {
  PictureModel model = words_model(3, 5);
  model.context = 20;
  const Reply refused = PictureServer(model).draw({{"prompt", "red cat flat"}});
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_NE(refused.body.find("context: expected at least 21 tokens"), std::string::npos)
      << refused.body;
}

TEST(ServedPictures, OfACaptionAreAskedByItsFeatures) {
  const PictureModel from = caption_model();
  const PictureServer captions(from);
  const PlainDrawing drawing(from);
  const auto file = write_caption("seven", 7, 1);
  const auto wanted = [&](std::uint64_t seed) {
    return drawing.pixels(caption_prompt(drawing.model(), file), seed, 7.5F);
  };
  const Reply reply = captions.draw({{"prompt", "a cat"},
                                     {"caption_features", base64_of(file)},
                                     {"guidance", 7.5},
                                     {"n", 2},
                                     {"seed", 3}});
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(pixels_of(reply.json()["data"][0]["b64_json"]), wanted(3));
  EXPECT_EQ(pixels_of(reply.json()["data"][1]["b64_json"]), wanted(4));
  EXPECT_EQ(reply.json()["usage"]["input_tokens"], 7);
  const auto message = [&](const Json& body) {
    const Reply refused = captions.draw(body);
    EXPECT_EQ(refused.status, 400) << refused.body;
    return refused.json()["error"]["message"].get<std::string>();
  };
  const auto says = [&](const Json& body, std::string_view part) {
    EXPECT_NE(message(body).find(part), std::string::npos) << message(body);
  };
  says({{"prompt", "a cat"}}, "expected the features of a caption");
  says({{"caption_features", "no base64"}}, "caption_features: expected safetensors in base64");
  says({{"caption_features", "AAAA"}}, "caption_features");
  says({{"caption_features", base64_of(write_caption("long", 11, 1))}},
       "expected 1 to 10 rows of 24, found [11, 24]");
  says({{"caption_features", base64_of(file)}, {"class", 1}}, "none beside caption_features");
}

}  // namespace
}  // namespace talon::test::pictures_test
