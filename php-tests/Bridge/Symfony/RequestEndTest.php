<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use DistributedLock;
use Exception;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use stdClass;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Event\RequestEvent;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\LockInterface;
use Symfony\Component\Messenger\Envelope;

/** One kernel that serves many requests, as with FrankenPHP's worker mode, RoadRunner and Swoole. */
final class RequestEndTest extends SymfonyTestCase
{
    use Handlers;

    private Application $kernel;
    /** @var array<string, DistributedLock|LockInterface> what a service or a static property would keep */
    private array $kept = [];

    public static function setUpBeforeClass(): void
    {
        Needs::library('php-symfony-framework-bundle', 'Symfony/Bundle/FrameworkBundle/autoload.php');
        parent::setUpBeforeClass();
    }

    private function boot(): void
    {
        $this->kernel = new Application(Janitor::directory('.app'), [], ['dsn' => self::$server->dsn()]);
        $this->kernel->boot();
    }

    /** @param callable(): void $controller */
    private function serve(callable $controller, bool $terminates = true): void
    {
        $request = Request::create('/');
        $answer = static function (RequestEvent $event) use ($controller, $request): void {
            if ($event->getRequest() === $request) {
                $controller();
                $event->setResponse(new Response());
            }
        };
        $dispatcher = $this->kernel->getContainer()->get('event_dispatcher');
        $dispatcher->addListener('kernel.request', $answer, 1024);
        // What fails in the controller fails the test.
        $response = $this->kernel->handle($request, catch: false);
        $dispatcher->removeListener('kernel.request', $answer);
        if ($terminates) {
            $this->kernel->terminate($request, $response);
        }
    }

    private function take(string $name, bool $autoRelease = true): void
    {
        $this->kept[$name] = $this->kernel->getContainer()->get(LockFactory::class)->createLock($name, 60.0, $autoRelease);
        self::assertTrue($this->kept[$name]->acquire());
    }

    private function takeNative(string $name): void
    {
        $this->kept[$name] = $this->kernel->getContainer()->get(LeaseFactory::class)->create($name, 60.0);
        self::assertTrue($this->kept[$name]->acquire());
    }

    public function testWhatARequestLeftBehindIsGivenBackAtItsEnd(): void
    {
        $this->boot();
        $this->takeNative('of the worker');
        $this->serve(function (): void {
            $this->take('lock');
            $this->takeNative('native');
            $this->take('for another process', false);
        });

        self::assertFalse($this->kept['lock']->isAcquired());
        self::assertNull(self::stored('lock'));
        self::assertNull(self::stored('native'));
        self::assertNotNull(self::stored('for another process'));
        self::assertTrue($this->kept['of the worker']->isHeld());
        $this->serve(fn () => self::assertTrue($this->kept['lock']->acquire()));
        self::assertNull(self::stored('lock'), 'the next request has taken it with the same object');
        $this->kept = [];
    }

    public function testTheEndOfARequestInsideOfAnotherEndsOnlyWhatBeganInIt(): void
    {
        $this->boot();
        $this->serve(function (): void {
            $this->take('outer');
            $this->serve(fn () => $this->takeNative('inner'));
            self::assertNull(self::stored('inner'));
            $this->serve(fn () => $this->takeNative('inner, not terminated'), terminates: false);
            self::assertTrue($this->kept['outer']->isAcquired());
        });
        self::assertNull(self::stored('outer'));
        self::assertNull(self::stored('inner, not terminated'));
        $this->kept = [];
    }

    public function testAKernelThatIsNotTerminatedGivesBackWithTheNextRequest(): void
    {
        $this->boot();
        $this->serve(fn () => $this->take('lock'), terminates: false);
        self::assertNotNull(self::stored('lock'));

        $this->serve(static fn () => null);

        self::assertNull(self::stored('lock'));
        $this->kept = [];
    }

    public function testWhatAMessageLeftBehindInTheWorkerOfAQueueIsGivenBackAtItsEnd(): void
    {
        foreach (['Received', 'Handled', 'Failed'] as $what) {
            class_exists("Symfony\\Component\\Messenger\\Event\\WorkerMessage{$what}Event")
                || eval("namespace Symfony\\Component\\Messenger\\Event; final class WorkerMessage{$what}Event {
                    function __construct(private object \$envelope) {}
                    function getEnvelope(): object { return \$this->envelope; }
                }");
        }
        class_exists('Symfony\Component\Messenger\Envelope') || eval('namespace Symfony\Component\Messenger; final class Envelope {
            function __construct(private object $message) {}
            function getMessage(): object { return $this->message; }
        }');
        $this->boot();
        $message = new stdClass();
        $tell = function (string $what) use (&$message): void {
            $class = "Symfony\\Component\\Messenger\\Event\\WorkerMessage{$what}Event";
            $event = new $class(new Envelope($message), 'async', new Exception('boom'));
            $this->kernel->getContainer()->get('event_dispatcher')->dispatch($event);
        };
        $this->takeNative('of the worker');
        foreach (['Handled', 'Failed'] as $end) {
            $tell('Received');
            $this->take('lock');
            $this->takeNative('native');
            $tell($end);

            self::assertNull(self::stored('lock'), $end);
            self::assertNull(self::stored('native'), $end);
            self::assertTrue($this->kept['of the worker']->isHeld());
        }

        // A listener may leave a message out: then nothing is told of its end.
        $tell('Received');
        $this->takeNative('left out');
        $message = new stdClass();
        $tell('Received');
        $tell('Handled');
        self::assertNull(self::stored('left out'));
        $this->kept = [];
    }
}
