// A Kafka server of franz-go's kfake on 127.0.0.1, for tests of kfetch.
//
// The first line of its output has the addresses of its brokers. It obeys the lines of its input,
// and answers each with one line: "ok", or an error. It ends with its input.
//
//	create TOPIC PARTITIONS         create a topic
//	delete TOPIC                    delete a topic
//	trim TOPIC PARTITION OFFSET     delete the records before an offset
//	move TOPIC PARTITION NODE       move a partition to another leader
//	shuffle                         choose another leader for every partition, perhaps the same
//	fail API CODE COUNT             answer the next COUNT requests of an API with an error code
//	fetches                         list all Fetch requests, one line each, before "ok"
package main

import (
	"bufio"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func main() {
	brokers := flag.Int("brokers", 1, "number of brokers")
	version := flag.String("as-version", "", "the version of Kafka that it imitates, such as 2.8; empty for the newest")
	slots := flag.Int("slots", 1000, "fetch sessions that each broker keeps")
	certificate := flag.String("certificate", "", "a PEM file with certificate and key: speak TLS")
	login := flag.String("login", "", "a file with mechanism, user and password: ask for a log-in")
	flag.Parse()

	options := []kfake.Opt{
		kfake.NumBrokers(*brokers),
		kfake.BrokerConfigs(map[string]string{"max.incremental.fetch.session.cache.slots": strconv.Itoa(*slots)}),
	}
	if *version != "" {
		versions := kversion.FromString(*version)
		if versions == nil {
			log.Fatalf("franz-go knows no Kafka %s", *version)
		}
		options = append(options, kfake.MaxVersions(versions))
	}
	options = append(options, security(*certificate, *login)...)
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()

	seen := record(cluster)
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := obey(cluster, seen, strings.Fields(lines.Text())); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("ok")
	}
}

func security(certificate, login string) []kfake.Opt {
	var options []kfake.Opt
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, certificate)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	}
	if login != "" {
		text, err := os.ReadFile(login)
		if err != nil {
			log.Fatal(err)
		}
		words := strings.Fields(string(text))
		options = append(options, kfake.EnableSASL(), kfake.Superuser(words[0], words[1], words[2]))
	}
	return options
}

// fetches are the Fetch requests so far: node, version, session, epoch, partitions named, forgotten.
type fetches struct {
	mutex sync.Mutex
	lines []string
}

func record(cluster *kfake.Cluster) *fetches {
	seen := &fetches{}
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		fetch := request.(*kmsg.FetchRequest)
		named, forgotten := 0, 0
		for _, topic := range fetch.Topics {
			named += len(topic.Partitions)
		}
		for _, topic := range fetch.ForgottenTopics {
			forgotten += len(topic.Partitions)
		}
		line := fmt.Sprintf("%d %d %d %d %d %d", cluster.CurrentNode(), fetch.Version,
			fetch.SessionID, fetch.SessionEpoch, named, forgotten)
		seen.mutex.Lock()
		defer seen.mutex.Unlock()
		seen.lines = append(seen.lines, line)
		return nil, nil, false // the cluster answers it
	})
	return seen
}

func obey(cluster *kfake.Cluster, seen *fetches, words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("an empty line is no command")
	}
	arguments := words[1:]
	switch command := words[0]; {
	case command == "create" && len(arguments) == 2:
		return cluster.CreateTopic(arguments[0], number(arguments[1]), nil)
	case command == "delete" && len(arguments) == 1:
		return cluster.DeleteTopic(arguments[0])
	case command == "trim" && len(arguments) == 3:
		return cluster.DeleteRecords(arguments[0], number(arguments[1]), int64(number(arguments[2])))
	case command == "move" && len(arguments) == 3:
		return cluster.MoveTopicPartition(arguments[0], number(arguments[1]), number(arguments[2]))
	case command == "shuffle" && len(arguments) == 0:
		cluster.ShufflePartitionLeaders()
		return nil
	case command == "fail" && len(arguments) == 3:
		return fail(cluster, arguments)
	case command == "fetches" && len(arguments) == 0:
		seen.mutex.Lock()
		defer seen.mutex.Unlock()
		for _, line := range seen.lines {
			fmt.Println(line)
		}
		return nil
	}
	return fmt.Errorf("not a command: %s", strings.Join(words, " "))
}

func fail(cluster *kfake.Cluster, arguments []string) error {
	known, ok := kerr.ErrorForCode(int16(number(arguments[1]))).(*kerr.Error)
	if !ok {
		return fmt.Errorf("%s is no error code", arguments[1])
	}
	cluster.Fault(kfake.Fault{
		Keys:  []kmsg.Key{kmsg.Key(number(arguments[0]))},
		Err:   known,
		Count: int(number(arguments[2])),
	})
	return nil
}

// number ends the server when a test sends a word that is no number.
func number(text string) int32 {
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		log.Fatalf("%s is no number", text)
	}
	return int32(value)
}
