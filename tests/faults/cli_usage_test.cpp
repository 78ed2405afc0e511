#include <gtest/gtest.h>

#include "cli_process.h"

// What the user types wrong: exit code 2, nothing on standard output, and a message that names the
// flag, what it may be and what it was.
namespace talon::test::cli_usage_test {
namespace {

struct WrongUse {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<std::string> said;  // parts of the message
};

std::ostream& operator<<(std::ostream& out, const WrongUse& use) { return out << use.name; }

/// `talon run` on the small model with a prompt and these.
WrongUse run_with(std::string name, std::vector<std::string> extra, std::vector<std::string> said) {
  std::vector<std::string> arguments = {"run", "-m", small_model(), "-p", "Once"};
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return {std::move(name), std::move(arguments), std::move(said)};
}

class WrongUsage : public testing::TestWithParam<WrongUse> {};

TEST_P(WrongUsage, EndsWithCodeTwoAndSaysWhatWasExpected) {
  const Outcome outcome = run_talon(GetParam().arguments);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.output, "");
  for (const std::string& part : GetParam().said)
    EXPECT_NE(outcome.notes.find(part), std::string::npos) << outcome.notes;
}

INSTANTIATE_TEST_SUITE_P(
    Cli, WrongUsage,
    testing::Values(
        WrongUse{"NoCommand", {}, {"subcommand", "run, chat"}},
        WrongUse{"UnknownCommand", {"frobnicate"}, {"run", "chat", "\"frobnicate\""}},
        WrongUse{"UnknownBench",
                 {"bench", "frobnicate"},
                 {"talon bench: expected a subcommand, spec, image, cost", "got \"frobnicate\""}},
        WrongUse{"NoModel", {"run", "-p", "x"}, {"--model"}},
        WrongUse{"NoPrompt", {"run", "-m", small_model()}, {"-p", "-f", "--prompt-ids", "got 0"}},
        WrongUse{"TwoPrompts",
                 {"run", "-m", small_model(), "-p", "x", "-f", "y"},
                 {"exactly one", "got 2"}},
        run_with("UnknownFlag", {"--bogus", "3"},
                 {"talon run: expected no \"--bogus 3\"", "talon run --help"}),
        WrongUse{"TokensNotANumber",
                 {"train", "data", "-m", small_model(), "-o", "x", "--tokens", "many"},
                 {"--tokens", "whole number", "\"many\""}},
        WrongUse{
            "GuidanceOfText",
            {"train", "data", "-m", small_model(), "--prompts", "x", "-o", "x", "--guidance", "3"},
            {"--guidance", "expected a model that draws"}},
        WrongUse{"UnknownSituation",
                 {"bench", "contention", "-m", small_model(), "--situations", "lunch"},
                 {"--situations", "quiet", "\"lunch\""}},
        run_with("MissingValue", {"--seed"}, {"--seed"}),
        run_with("TooFewNew", {"-n", "0"}, {"--max-new", "from 1", "\"0\""}),
        run_with("NewNotANumber", {"-n", "5x"}, {"--max-new", "whole number", "\"5x\""}),
        run_with("HotTemperature", {"--temperature", "hot"},
                 {"--temperature", "from 0 to 100", "\"hot\""}),
        run_with("NanTemperature", {"--temperature", "nan"}, {"--temperature", "\"nan\""}),
        run_with("TopPAboveOne", {"--top-p", "1.5"}, {"--top-p", "from 0 to 1", "\"1.5\""}),
        run_with("NegativeSeed", {"--seed", "-1"}, {"--seed", "\"-1\""}),
        run_with("NegativeTopK", {"--top-k", "-3"}, {"--top-k", "\"-3\""}),
        run_with("UnknownBackend", {"--backend", "cuda"},
                 {"--backend", "cpu or reference", "\"cuda\""}),
        run_with("UnknownWeights", {"--weights", "int3"}, {"--weights", "int8", "\"int3\""}),
        run_with("TooManyThreads", {"--threads", "9999"}, {"--threads", "\"9999\""}),
        run_with("ContextBeyondModel", {"--context", "513"}, {"context: ", "512", "513"}),
        run_with("UnknownDrafter", {"-d", "foo"}, {"drafter", "none", "ngram", "\"foo\""}),
        run_with("UnknownDrafterOption", {"-d", "ngram:zz=1"}, {"ngram", "\"zz\"", "nodes"}),
        run_with("BadDrafterOption", {"-d", "ngram:nodes=many"}, {"nodes", "\"many\""}),
        run_with("UnknownPolicy", {"--policy", "foo"}, {"policy", "throughput", "\"foo\""}),
        run_with("UnknownRule", {"--verify", "foo"}, {"verify", "follow", "\"foo\""}),
        run_with("BannedOutOfRange", {"--ban", "512"}, {"0 to 511", "512"}),
        run_with("BiasWithoutColon", {"--logit-bias", "5"}, {"--logit-bias", "ID:BIAS"}),
        run_with("EmptyStopText", {"--stop", ""}, {"stop"}),
        run_with("EmptySeed", {"--seed="}, {"--seed", "whole number", "\"\""}),
        run_with("EmptyValueBeforeAnOption", {"--stop=", "--seed", "1"},
                 {"--stop", "found an empty one"}),
        WrongUse{"LearnKeepWithoutLearn",
                 {"serve", "-m", small_model(), "--learn-keep", "x"},
                 {"--learn-keep", "--learn"}},
        WrongUse{"CorsOfNoOrigin",
                 {"serve", "-m", small_model(), "--cors", "x\nY: z"},
                 {"--cors", "SCHEME://HOST[:PORT]", "\"x\\x0aY: z\""}},
        WrongUse{"CorsWithAPath",
                 {"serve", "-m", small_model(), "--cors", "http://x/"},
                 {"--cors", "SCHEME://HOST[:PORT]", "\"http://x/\""}},
        WrongUse{
            "VqOfAModelThatWrites", {"serve", "-m", small_model(), "--vq", "x"}, {"--vq", "draws"}},
        WrongUse{"CellsOfAModelThatWrites",
                 {"serve", "-m", small_model(), "--cells", "4"},
                 {"--cells", "draws"}},
        run_with("SystemWithoutChat", {"--system", "x"}, {"--system", "--chat"}),
        WrongUse{"IdOutOfRange",
                 {"run", "-m", small_model(), "--prompt-ids", "1,512"},
                 {"512", "place 1", "0 to 511"}},
        WrongUse{"IdNotANumber",
                 {"run", "-m", small_model(), "--prompt-ids", "1,a"},
                 {"--prompt-ids", "\"a\""}},
        WrongUse{"IdsWithAGap",
                 {"run", "-m", small_model(), "--prompt-ids", "1,,2"},
                 {"--prompt-ids", "a whole number between commas"}},
        WrongUse{"IdsWithACommaAtTheEnd",
                 {"run", "-m", small_model(), "--prompt-ids", "1,2,"},
                 {"--prompt-ids", "a whole number between commas"}},
        WrongUse{"MethodsWithACommaAtTheEnd",
                 {"bench", "spec", "-m", small_model(), "--methods", "none,", "--questions", "q"},
                 {"\"none,\"", "between commas"}},
        WrongUse{"TemperaturesWithACommaAtTheEnd",
                 {"bench", "spec", "-m", small_model(), "--temperature", "0,"},
                 {"--temperature", "between commas", "\"0,\""}},
        WrongUse{"RatesWithACommaAtTheEnd",
                 {"bench", "load", "-m", small_model(), "--rate", "1,"},
                 {"--rate", "between commas"}},
        WrongUse{"PoliciesWithACommaAtTheEnd",
                 {"bench", "simulate", "--trace", "x", "--policies", "fixed,"},
                 {"\"fixed,\"", "between commas"}},
        WrongUse{"KernelFormatsWithAGap",
                 {"bench", "kernels", "--format", "q4_0,,q8_0"},
                 {"--format", "between commas"}},
        WrongUse{"SituationsWithACommaAtTheEnd",
                 {"bench", "contention", "-m", small_model(), "--situations", "quiet,"},
                 {"--situations", "between commas"}},
        WrongUse{"HeadTemperaturesWithACommaAtTheEnd",
                 {"train", "head", "-m", "x", "--data", "x", "-o", "y", "--temperatures", "0,"},
                 {"--temperatures", "between commas"}},
        WrongUse{"TemperatureTwice",
                 {"bench", "spec", "-m", small_model(), "--temperature", "0,0.0"},
                 {"--temperature", "\"0.0\" is there twice"}},
        WrongUse{"TraceOfTwoTemperatures",
                 {"bench", "spec", "-m", small_model(), "--methods", "ngram", "--questions", "q",
                  "--temperature", "0,1", "--trace", "t"},
                 {"--trace", "one --temperature", "found 2"}},
        WrongUse{"SituationTwice",
                 {"bench", "contention", "-m", small_model(), "--situations", "quiet,quiet"},
                 {"--situations", "\"quiet\" is there twice"}},
        WrongUse{"LoadOfNobody",
                 {"bench", "load", "-m", small_model(), "--methods", "", "--questions", "q"},
                 {"--methods, --url", "at least one"}},
        WrongUse{"CostOfPassesWithoutAHead",
                 {"bench", "cost", "-m", small_model(), "-d", "auto"},
                 {"with a head", "got suffix"}},
        WrongUse{"AutoBesideOthers",
                 {"run", "-m", small_model(), "-p", "x", "-d", "auto+ngram"},
                 {"auto alone", "\"auto+ngram\""}},
        run_with("BannedWithAGap", {"--ban", "1,,2"}, {"--ban", "between commas"}),
        WrongUse{"RowsWithAGap",
                 {"bench", "cost", "-m", small_model(), "--rows", "1,,2"},
                 {"--rows", "between commas"}},
        WrongUse{"SpecOfNoMethods",
                 {"bench", "spec", "-m", small_model(), "--methods", "", "--questions", "q"},
                 {"--methods", "at least one"}},
        WrongUse{"ImageMethodTwice",
                 {"bench", "image", "-m", "x", "--methods", "jacobi,jacobi", "--prompts", "q"},
                 {"--methods", "\"jacobi\" is there twice"}},
        run_with("TwoPolicies", {"-d", "ngram@policy=fixed", "--policy", "throughput"},
                 {"--policy: expected fixed, as behind the drafter of -d", "\"throughput\""}),
        WrongUse{"TrainingWithoutALoss",
                 {"train", "head", "-m", "x", "--data", "x", "-o", "y", "--loss-soft", "0"},
                 {"--loss-soft", "a weight above 0"}},
        WrongUse{"StepsOfADraftModel",
                 {"train", "head", "-m", "x", "--data", "x", "-o", "y", "--kind", "draft",
                  "--steps", "4"},
                 {"--steps", "--kind eagle, eagle3, medusa, dflash, peagle, got draft"}},
        WrongUse{"NeuronsOfAMedusaHead",
                 {"train", "head", "-m", "x", "--data", "x", "-o", "y", "--kind", "medusa",
                  "--intermediate", "64"},
                 {"--intermediate", "got medusa"}},
        WrongUse{"MedusaLayersOfAnEagleHead",
                 {"train", "head", "-m", "x", "--data", "x", "-o", "y", "--medusa-layers", "2"},
                 {"--medusa-layers", "--kind medusa, got eagle3"}},
        WrongUse{"LayersOfAnEagleHead",
                 {"train", "head", "-m", "x", "--data", "x", "-o", "y", "--layers", "2"},
                 {"--layers", "--kind dflash, peagle, draft, got eagle3"}},
        WrongUse{"FeaturesOfAnEagle3Head",
                 {"train", "head", "-m", "x", "--data", "x", "-o", "y", "--loss-feature", "1"},
                 {"--loss-feature", "--kind eagle, medusa, got eagle3"}},
        WrongUse{"TrainingOnNoDevice",
                 {"train", "head", "-m", "x", "--data", "x", "-o", "y", "--device", "foo"},
                 {"--device", "cpu, cuda", "\"foo\""}},
        WrongUse{"CacheOfAPicture",
                 {"image", "-m", "x", "-p", "x", "-o", "x", "--cache-mb", "5"},
                 {"--cache-mb"}},
        WrongUse{
            "CacheOfABenchOfPictures",
            {"bench", "image", "-m", "x", "--methods", "none", "--prompts", "q", "--cache-mb", "5"},
            {"--cache-mb"}},
        WrongUse{"CacheOfTrainingData",
                 {"train", "data", "-m", "x", "--prompts", "x", "-o", "x", "--cache-mb", "5"},
                 {"--cache-mb"}},
        WrongUse{"CacheOfAnInspection", {"inspect", "x", "--cache-mb", "5"}, {"--cache-mb"}},
        WrongUse{"NoIds", {"run", "-m", small_model(), "--prompt-ids", ""}, {"empty"}},
        WrongUse{"DecodeOutOfRange",
                 {"tokenize", "-m", small_model(), "--decode", "-p", "512"},
                 {"512", "0 to 511"}},
        WrongUse{"InspectNothing", {"inspect"}, {"--machine"}},
        WrongUse{"CostOfNoRows",
                 {"bench", "cost", "-m", small_model(), "--rows", "0"},
                 {"--rows", "from 1", "\"0\""}},
        WrongUse{"SpecPeerWithoutPath",
                 {"bench", "spec", "-m", small_model(), "--methods", "none,peer:llama.cpp",
                  "--questions", "q"},
                 {"peer:llama.cpp", "=PATH"}},
        WrongUse{
            "SpecMethodTwice",
            {"bench", "spec", "-m", small_model(), "--methods", "ngram,ngram", "--questions", "q"},
            {"--methods", "\"ngram\"", "twice"}},
        WrongUse{"CostBeyondContext",
                 {"bench", "cost", "-m", small_model(), "--context", "512"},
                 {"--context", "512"}},
        WrongUse{"PullUnknownName",
                 {"pull", "gpt9"},
                 {"smollm2", "tinyllama", "stories15m", "\"gpt9\""}},
        WrongUse{"PullBadChecksum",
                 {"pull", "file:///x/y", "--sha256", "12"},
                 {"--sha256", "64", "\"12\""}},
        WrongUse{"PullNameForAModel",
                 {"pull", "smollm2", "--for", "nothing"},
                 {"smollm2", "--for", "OWNER/NAME"}},
        WrongUse{"PullListOfAHub", {"pull", "list", "--hub", "http://x"}, {"--hub", "OWNER/NAME"}},
        WrongUse{"PullUrlForAModel",
                 {"pull", "http://127.0.0.1:1/m.gguf", "--for", "smollm2"},
                 {"m.gguf", "--for", "OWNER/NAME"}},
        WrongUse{"PullOfAHubToAFile", {"pull", "a/b", "-o", "m.gguf"}, {"a/b", "-o", "URLs"}},
        WrongUse{"PullUrlWithoutName", {"pull", "file:///x/"}, {"file name"}},
        WrongUse{"ChatStopsAtNothing",
                 {"chat", "-m", small_model(), "--stop", ""},
                 {"--stop", "expected a text, found an empty one"}},
        WrongUse{"LearnsIntoNoFolder",
                 {"serve", "-m", small_model(), "--learn", ""},
                 {"--learn", "found an empty one"}},
        WrongUse{"ShareOfNoLearning",
                 {"serve", "-m", small_model(), "--learn-share", "0.5"},
                 {"--learn-share", "--learn"}},
        WrongUse{"PullUnknown", {"pull", "me"}, {"smollm2", "OWNER/NAME of a hub", "\"me\""}},
        WrongUse{"HelpUnknownTopic", {"help", "me"}, {"methods", "\"me\""}},
        WrongUse{"HelpUnknownBench", {"help", "bench", "me"}, {"spec, image", "\"me\""}},
        WrongUse{
            "HelpBehindMethods", {"help", "methods", "me"}, {"nothing behind methods", "\"me\""}},
        WrongUse{"PolicyBeforeTheModel",
                 {"run", "-m", "x", "-p", "x", "--policy", "foo"},
                 {"policy", "throughput", "\"foo\""}},
        WrongUse{"PromptBeforeTheModel", {"run", "-m", "x"}, {"-p", "-f", "--prompt-ids", "got 0"}},
        WrongUse{"CalibrationOfNoDrafter",
                 {"bench", "calibration", "-m", "x", "-d", "none", "--questions", "q"},
                 {"expected a drafter", "none"}},
        WrongUse{"ThreadsOfContention",
                 {"bench", "contention", "-m", small_model(), "--threads", "2"},
                 {"expected no \"--threads 2\""}},
        WrongUse{"PeerOfContention",
                 {"bench", "contention", "-m", "x", "--peer", "peer:llama.cpp"},
                 {"peer:llama.cpp", "=PATH"}},
        WrongUse{
            "MachineForAModel", {"inspect", "--machine", "--for", "x"}, {"--for", "--machine"}},
        WrongUse{"TrainingSeed",
                 {"train", "head", "-m", "x", "--data", "x", "-o", "y", "--seed", "-1"},
                 {"--seed", "whole number", "\"-1\""}},
        WrongUse{"LimitOfNoQuestions",
                 {"train", "head", "-m", "x", "--data", "x", "-o", "y", "--limit", "5"},
                 {"--limit", "--questions"}},
        WrongUse{"NoTemperatureOfAPolicysTexts",
                 {"train", "policy", "-m", "x", "-d", "eagle3", "--questions", "q", "-o", "y",
                  "--temperatures", "0,"},
                 {"--temperatures", "between commas"}},
        WrongUse{"LossOfARadar",
                 {"train", "policy", "-m", "x", "-d", "eagle3", "--questions", "q", "-o", "y",
                  "--kind", "radar", "--loss", "ordinal"},
                 {"--loss: expected --kind ada_eagle, got radar"}},
        WrongUse{"SamplesOfReadyMadeAnswers",
                 {"train", "data", "-m", "x", "--responses", "x", "-o", "y", "--samples", "2"},
                 {"--samples", "--prompts", "as they are"}},
        WrongUse{
            "TemperatureMixBeforeTheModel",
            {"train", "data", "-m", "x", "--prompts", "x", "-o", "y", "--temperature-mix", "0:a"},
            {"--temperature-mix \"0:a\"", "found \"a\""}},
        WrongUse{"UnknownFeatures",
                 {"train", "data", "-m", "x", "--prompts", "x", "-o", "y", "--features", "f8"},
                 {"--features", "f16, q8 or none", "\"f8\""}},
        WrongUse{
            "CompletionOfNoShell", {"completion", "sh"}, {"expected bash, zsh or fish", "\"sh\""}},
        WrongUse{"HelpTooDeep", {"help", "run", "me"}, {"nothing behind run", "\"me\""}}),
    [](const auto& use) { return use.param.name; });

/// What would be passed over without a word otherwise.
INSTANTIATE_TEST_SUITE_P(
    CliWithoutUse, WrongUsage,
    testing::Values(
        WrongUse{"TopWithoutJson",
                 {"score", "-m", small_model(), "-f", "x", "--top", "3"},
                 {"--top: needs --json"}},
        WrongUse{"StartOfIds",
                 {"tokenize", "-m", small_model(), "--decode", "--start", "-p", "1"},
                 {"--decode", "--start"}},
        WrongUse{"GrammarFromThePromptsInput",
                 {"run", "-m", small_model(), "-f", "-", "--grammar", "-"},
                 {"--grammar: expected a file where -f reads standard input"}},
        run_with("GrammarFromTheExpectedInput", {"--expected", "-", "--json-schema", "-"},
                 {"--json-schema: expected a file where --expected reads standard input"}),
        WrongUse{"PortOfASocket",
                 {"serve", "-m", small_model(), "--unix", "/nowhere/x", "--port", "1"},
                 {"--unix", "--port"}},
        WrongUse{"SocketWithoutAName",
                 {"serve", "-m", small_model(), "--host", "", "--unix", ""},
                 {"--unix", "found an empty one"}},
        WrongUse{"KeysOfNoFile",
                 {"serve", "-m", small_model(), "--host", "", "--api-key-file", ""},
                 {"--api-key-file", "found an empty one"}},
        WrongUse{"TwoKeysAtOnce",
                 {"serve", "-m", small_model(), "--host", "", "--api-key", "a", "b"},
                 {"expected no \"b\""}},
        run_with("KernelsOfTheReference", {"--backend", "reference", "--kernels", "portable"},
                 {"--kernels: needs --backend cpu"}),
        run_with("ActivationsOfTheReference", {"--backend", "reference", "--activations", "16"},
                 {"--activations: needs --backend cpu"}),
        run_with("TraceToNoFile", {"--trace", ""}, {"--trace", "found an empty one"}),
        run_with("NothingExpected", {"--expected", ""}, {"--expected", "found an empty one"}),
        WrongUse{
            "ResultsToNoFile",
            {"bench", "spec", "-m", "x", "--methods", "none", "--questions", "q", "--output", ""},
            {"--output", "found an empty one"}},
        WrongUse{"ReportToNoFolder",
                 {"bench", "cost", "-m", "x", "--report", ""},
                 {"--report", "found an empty one"}}),
    [](const auto& use) { return use.param.name; });

TEST(TextFile, ThatCannotBeLookedAtIsNamed) {
  const Outcome outcome = run_talon({"run", "-m", small_model(), "-f", std::string(300, 'a')});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.notes.find("aaa: File name too long"), std::string::npos) << outcome.notes;
  EXPECT_EQ(outcome.notes.find("unexpected"), std::string::npos) << outcome.notes;
}

TEST(ModelFolder, WithALoopOfLinksNamesIt) {
  const Folder folder;
  const std::filesystem::path model = folder.path() / "model";
  std::filesystem::copy(TALON_TEST_DATA "/golden/stories260k/target", model);
  std::filesystem::copy(TALON_TEST_DATA "/text/unigram/tokenizer.json", model);
  std::filesystem::create_symlink("tokenizer_config.json", model / "tokenizer_config.json");
  const Outcome outcome = run_talon({"tokenize", "-m", model.string(), "-p", "Once"});
  EXPECT_EQ(outcome.code, 1);
  const std::string said = "tokenizer_config.json: Too many levels of symbolic links";
  EXPECT_NE(outcome.notes.find(said), std::string::npos) << outcome.notes;
  EXPECT_EQ(outcome.notes.find("unexpected"), std::string::npos) << outcome.notes;
}

TEST(Help, IsOfTheProgramOrOfACommand) {
  EXPECT_EQ(run_talon({"help"}).output, run_talon({"--help"}).output);
  EXPECT_NE(run_talon({"help", "run"}).output.find("--max-new"), std::string::npos);
  EXPECT_EQ(run_talon({"help", "bench", "image"}).output,
            run_talon({"bench", "image", "--help"}).output);
}

TEST(Help, SaysWhatModelsAre) {
  for (const char* command : {"run", "serve"}) {
    const std::string help = run_talon({"help", command}).output;
    EXPECT_NE(help.find("talon pull list"), std::string::npos) << help;
    EXPECT_NE(help.find("OWNER/NAME[@REVISION][:FILE]"), std::string::npos) << help;
  }
}

TEST(Help, ShowsFlagsAsTheyAreGiven) {
  EXPECT_EQ(run_talon({"help", "chat"}).output.find("{false}"), std::string::npos);
  EXPECT_EQ(run_talon({"help", "train", "data"}).output.find("{false}"), std::string::npos);
}

}  // namespace
}  // namespace talon::test::cli_usage_test
